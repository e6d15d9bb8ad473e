"""A real process that appends until it is killed with SIGKILL: every append it reported is there afterwards."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from broker.log.config import LogConfig
from broker.log.directory import LogDirectory
from broker.wire.records import decode_records, iter_batches

WRITER = """
import sys
from broker.log.directory import LogDirectory
from broker.log.config import LogConfig
from broker.wire.records import encode_batch
log = LogDirectory(sys.argv[1], config=LogConfig(segment_bytes=200_000)).open_log("t", 0)
for number in range(10**9):
    values = [b"%d" % number, bytes(3000)]
    result = log.append(encode_batch(values, timestamps_ms=number), leader_epoch=number // 500)
    sys.stdout.write(f"{result.base_offset}\\n")
    sys.stdout.flush()
"""
WAIT_S = 30.0


@pytest.mark.slow
@pytest.mark.parametrize("after_appends", [1, 300, 2000])
def test_reported_appends_survive_sigkill(tmp_path: Path, after_appends: int) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    deadline = time.monotonic() + WAIT_S
    reported = -1
    try:
        for _ in range(after_appends):
            reported = int(writer.stdout.readline())
            assert time.monotonic() < deadline
    finally:
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read().splitlines(keepends=True)
        writer.wait(timeout=WAIT_S)
    reported = max([reported, *(int(line) for line in rest if line.endswith("\n"))])
    directory = LogDirectory(str(tmp_path), config=LogConfig(segment_bytes=200_000))
    assert not directory.was_clean_shutdown
    log = directory.open_log("t", 0)
    log.check_invariants()
    assert reported + 2 <= log.log_end_offset <= reported + 6
    offset = 0
    while data := log.read(offset, 100_000):
        for batch in iter_batches(data):
            rows = decode_records(batch)
            assert rows[0][0] == offset
            assert rows[0][3] == b"%d" % (offset // 2)
            offset = batch.header.next_offset
    assert offset == log.log_end_offset
