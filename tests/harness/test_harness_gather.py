"""The harness's host dies in the middle of a cell: what the load hosts have is gathered later, all of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.run.hosts.gather_late import cells_to_gather
from runlog.streams import segment
from runlog.streams.parquet import read_stream
from runlog.streams.schema import RECV, SEND
from tests.harness.harness_process import family
from tests.harness.load_workers import END_S, Workers, harness, said, started_harness
from tests.patience import files_seen, wait_until
from tests.workloads.load_hosts import WAIT_S
from workloads.hosts.gather import PART

pytestmark = [pytest.mark.slow, pytest.mark.long]

SUITE = """
name: dies
workload: {rate_per_s: 300, record_size_bytes: 100, producers: 2, consumers: 2, warmup_ms: 300, measure_ms: 600000,
  drain_ms: 60000}
topic: {partitions: 2, replication_factor: 1}
cluster: {brokers: 1}
sweep: {baseline: {linger.ms: 5}, vary: {linger.ms: [5]}, repetitions: 1, repeat_share: 0}
"""
RECORDS_MIN = 600


def killed_run(
    directory: Path, workers: Workers, options: Sequence[str] = (), more: Mapping[str, str] | None = None
) -> Path:
    """A run of which everything on the harness's host died at once, while the load went on."""
    (directory / "suite.yaml").write_text(SUITE)
    run_dir = directory / "run"
    process = started_harness(
        directory,
        [
            "run", str(directory / "suite.yaml"), "--no-certify", "--no-report", "--run-dir", str(run_dir),
            *workers.options, *options,
        ],
        more,
    )  # fmt: skip
    try:
        wait_until(
            lambda: acknowledged(process, run_dir) >= RECORDS_MIN,
            f"{RECORDS_MIN} records",
            seen=files_seen(directory),
            poll_s=0.2,
        )
    finally:
        while there := family(directory / "state-run"):
            for pid in there:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        process.wait(timeout=END_S)
    return run_dir


def acknowledged(process: subprocess.Popen[str], run_dir: Path) -> int:
    assert process.poll() is None, (run_dir.parent / "run.stderr").read_text()
    acked = 0
    for path in run_dir.glob("cells/*/stats.jsonl"):
        for line in path.read_text().splitlines()[:-1]:
            values = json.loads(line).get("values")
            acked = max(acked, int((values or {}).get("acked", 0)))
    return acked


def outcome_of(run_dir: Path) -> Any:
    (path,) = run_dir.glob("cells/*/cell.json")
    return json.loads(path.read_text())["outcome"]


def spooled(workers: Workers) -> dict[str, Any]:
    """Rows of both streams at the load hosts, once nobody writes them any more."""
    lives = list(workers.spool.glob("*/*/cells/*/live"))
    return {
        stream.name: np.concatenate([part.rows for live in lives for part in segment.read_segments(live, stream)])
        for stream in (SEND, RECV)
    }


def gather(directory: Path, workers: Workers, run_dir: Path) -> subprocess.CompletedProcess[str]:
    options = workers.options[workers.options.index("--load-listen") :]
    return harness(directory, ["gather", str(run_dir), *options])


def test_what_load_hosts_have_is_gathered_later_in_several_goes_and_also_after_a_report(
    tmp_path: Path, workers: Workers
) -> None:
    run_dir = killed_run(tmp_path, workers)
    outcome = outcome_of(run_dir)
    assert [(host["name"], host["producers"], host["is_gathered"]) for host in outcome["load_hosts"]] == [
        ("left", [0], False), ("right", [1], False),
    ]  # fmt: skip
    # Somebody who does not know better looks at the run first: part of the run log is compacted.
    done = harness(tmp_path, ["report", str(run_dir)])
    assert done.returncode == 4, said(done)
    assert "load hosts still have run logs of this run (left, right)" in done.stderr
    assert "the harness ended before it was known" in done.stdout + (run_dir / "summary.md").read_text()
    # One of the hosts is away at first, and loses its processes too.
    workers.kill("right")
    wait_until(lambda: not has_share(tmp_path, "left"), "the share of left has ended, for want of a master", WAIT_S)
    at_hosts = spooled(workers)
    workers.start_again("right")
    (cell,) = cells_to_gather(run_dir)
    found = gather(tmp_path, workers, run_dir)
    assert found.returncode == 0, said(found)
    for name in workers.names:
        assert f"{cell.cell_id}: load host {name}: " in found.stderr
    sent, received = (read_stream(run_dir, stream, cell.cell_id) for stream in ("send", "recv"))
    has_outcome = sent["status"].to_numpy() != 2
    assert identities(sent, has_outcome) == {(int(row["producer"]), int(row["seq"])) for row in at_hosts["send"]}, (
        "every send whose fate a load host knows"
    )
    for producer in (0, 1):
        seqs = np.sort(sent["seq"].to_numpy()[sent["producer"].to_numpy() == producer])
        assert (seqs == np.arange(len(seqs))).all(), "every record once, those that were under way too"
    assert received.num_rows == len(at_hosts["recv"]) > 0
    outcome = outcome_of(run_dir)
    assert all(host["is_gathered"] and host["files"] >= 3 for host in outcome["load_hosts"])
    assert not list(workers.spool.glob("*/*/cells")), "what is here is forgotten there"
    again = gather(tmp_path, workers, run_dir)
    assert again.returncode == 0
    assert "no load host has anything of this run" in again.stderr
    done = harness(tmp_path, ["report", str(run_dir)])
    assert done.returncode == 4, said(done)  # whole, and of an interrupted cell


def has_share(directory: Path, name: str) -> bool:
    return any("--share" in command and is_used(pid) for pid, command in family(directory / f"state-{name}").items())


def is_used(pid: int) -> bool:
    """A share that stands by has no file of a run open."""
    try:
        return any(os.readlink(entry).endswith((".seg", PART)) for entry in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def identities(table: Any, chosen: Any) -> set[tuple[int, int]]:
    pairs = zip(table["producer"].to_numpy()[chosen], table["seq"].to_numpy()[chosen], strict=True)
    return {(int(producer), int(seq)) for producer, seq in pairs}
