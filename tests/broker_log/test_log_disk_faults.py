"""A disk that fails on demand, under a real partition log; what a loss of power leaves of it."""

from __future__ import annotations

import errno
import json
import threading
import time
from pathlib import Path

import pytest

from broker.log.config import LogConfig
from broker.log.disk_faults import CONTROL_INTERVAL_S, FaultyFileSystem, parse_control
from broker.log.filesystem import LOCAL
from broker.log.partition_log import PartitionLog
from broker.wire.records import encode_batch
from chaos.durable import durable_sizes


def batch(number: int) -> bytearray:
    return bytearray(encode_batch([b"value-%d" % number] * 3, timestamps_ms=1))


class Disk:
    def __init__(self, directory: Path) -> None:
        self.control = directory / "control.json"
        self.filesystem = FaultyFileSystem(LOCAL, str(self.control))
        self.segment = directory / "t-0" / "00000000000000000000.log"

    def set(self, *faults: dict[str, object]) -> None:
        self.control.write_text(json.dumps({"faults": faults}))
        time.sleep(CONTROL_INTERVAL_S * 1.5)

    def heal(self) -> None:
        self.control.unlink()
        time.sleep(CONTROL_INTERVAL_S * 1.5)

    def seen(self) -> dict[str, int]:
        return json.loads(Path(f"{self.control}.seen").read_text())

    def durable(self, *, after_ms: int = 0, writeback_ms: int = 30_000) -> int:
        lines = Path(f"{self.control}.durable").read_text().splitlines()
        now_ms = time.monotonic_ns() // 1_000_000 + after_ms
        return durable_sizes(lines, now_ms=now_ms, writeback_ms=writeback_ms).get(str(self.segment), 0)

    def log(self, **settings: int) -> PartitionLog:
        return PartitionLog(
            str(self.segment.parent), name="t-0", config=LogConfig(**settings), filesystem=self.filesystem
        )


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


@pytest.mark.parametrize(("name", "number"), [("ENOSPC", errno.ENOSPC), ("EIO", errno.EIO), ("EROFS", errno.EROFS)])
def test_a_refused_write_leaves_the_log_as_it_was_and_the_next_one_goes_on(disk: Disk, name: str, number: int) -> None:
    log = disk.log()
    log.append(batch(1), leader_epoch=0)
    disk.set({"call": "write", "error": name})
    with pytest.raises(OSError, match="disk fault") as raised:
        log.append(batch(2), leader_epoch=0)
    assert raised.value.errno == number
    assert log.log_end_offset == 3
    assert disk.seen() == {"write": 1}
    disk.heal()
    assert log.append(batch(3), leader_epoch=0).base_offset == 3


def test_skip_lets_calls_pass_first(disk: Disk) -> None:
    log = disk.log()
    disk.set({"call": "write", "error": "EIO", "skip": 2})
    for number in range(2):
        log.append(batch(number), leader_epoch=0)
    with pytest.raises(OSError):
        log.append(batch(2), leader_epoch=0)


def test_a_slow_disk_takes_its_time(disk: Disk) -> None:
    log = disk.log()
    disk.set({"call": "write", "delay_ms": 60})
    started = time.monotonic()
    log.append(batch(1), leader_epoch=0)
    assert time.monotonic() - started >= 0.06


def test_what_was_synced_survives_a_loss_of_power_and_the_rest_does_not(disk: Disk) -> None:
    log = disk.log()
    log.append(batch(1), leader_epoch=0)
    assert disk.durable() == 0
    log.flush()
    safe = disk.segment.stat().st_size
    assert disk.durable() == safe > 0
    time.sleep(0.03)
    log.append(batch(2), leader_epoch=0)
    assert disk.durable() == safe
    assert disk.durable(after_ms=30_000) == disk.segment.stat().st_size  # the operating system wrote it meanwhile


def test_a_sync_that_only_says_so_makes_nothing_durable(disk: Disk) -> None:
    log = disk.log(flush_messages=1)
    disk.set({"call": "sync", "lost": True})
    log.append(batch(1), leader_epoch=0)
    assert disk.durable() == 0
    assert disk.seen() == {"sync": 1}


def test_with_flush_messages_1_every_append_is_durable(disk: Disk) -> None:
    log = disk.log(flush_messages=1)
    for number in range(4):
        log.append(batch(number), leader_epoch=0)
        assert disk.durable() == disk.segment.stat().st_size


def test_what_is_truncated_is_gone_in_either_case(disk: Disk) -> None:
    log = disk.log()
    for number in range(3):
        log.append(batch(number), leader_epoch=0)
    log.flush()
    log.truncate_to(3)
    assert disk.durable() == disk.segment.stat().st_size


def test_a_cut_account_is_read_as_far_as_it_goes() -> None:
    lines = ["w 10 100 /a b.log", "s 20 100 /a b.log", "w 30 200 /a b.log", "w 40 3"]
    assert durable_sizes(lines, now_ms=50, writeback_ms=1000) == {"/a b.log": 100}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "expected"),
        ('{"faults": [{"call": "wrte", "error": "EIO"}]}', "'wrte'"),
        ('{"faults": [{"call": "write", "error": "EWHAT"}]}', "name of an errno"),
        ('{"faults": [{"call": "write"}]}', "does nothing"),
        ('{"faults": [{"call": "write", "lost": true}]}', "belongs to call sync"),
        ('{"faults": [{"call": "write", "delay": 3}]}', "unknown key 'delay'"),
    ],
)
def test_a_wrong_control_file_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_control(text)


@pytest.mark.thorough
def test_whoever_reads_the_counts_meets_a_whole_file(disk: Disk) -> None:
    disk.set({"call": "sync", "lost": True})
    file = disk.filesystem.open(str(disk.segment.parent.parent / "t-1.log"))
    file.sync()
    read: list[int] = []
    stop = threading.Event()

    def read_on() -> None:
        while not stop.is_set():
            text = Path(f"{disk.control}.seen").read_text()
            read.append(json.loads(text)["sync"] if text else -1)

    reader = threading.Thread(target=read_on)
    reader.start()
    for _ in range(2000):
        file.sync()
    stop.set()
    reader.join()
    assert min(read) >= 1
