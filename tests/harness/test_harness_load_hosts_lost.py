"""A load host is lost in the middle of a run: what becomes of its cell, and of those that would come after it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.harness.load_workers import END_S, RUN_QUIET_S, Workers, harness, said, started_harness
from tests.patience import communicate, files_seen, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.spark]

SUITE = """
name: lost
workload: {rate_per_s: 300, record_size_bytes: 100, producers: 2, warmup_ms: 300, measure_ms: 8000, drain_ms: 60000}
topic: {partitions: 2, replication_factor: 1}
cluster: {brokers: 1}
sweep: {baseline: {linger.ms: 5}, vary: {linger.ms: [0, 1, 2]}, repetitions: 1, repeat_share: 0}
lost_load_host: LOST
"""


def run_that_loses_one(directory: Path, workers: Workers, what: str) -> tuple[int, Path]:
    """The exit code. `right` is killed in the measured window of the first cell."""
    (directory / "suite.yaml").write_text(SUITE.replace("LOST", what))
    run_dir = directory / "run"
    process = started_harness(
        directory,
        [
            "run", str(directory / "suite.yaml"), "--no-certify", "--no-report", "--run-dir", str(run_dir),
            *workers.options,
        ],
    )  # fmt: skip
    try:
        wait_until(
            lambda: is_measuring(process, run_dir),
            "the measured window of the first cell",
            seen=files_seen(directory),
            poll_s=0.2,
        )
        workers.kill("right")
        communicate(process, "the end of the run", quiet_s=RUN_QUIET_S)
    finally:
        process.kill()
        process.wait(timeout=END_S)
    return process.returncode, run_dir


def is_measuring(process: subprocess.Popen[str], run_dir: Path) -> bool:
    assert process.poll() is None, (run_dir.parent / "run.stderr").read_text()
    return any('"measure"' in path.read_text() for path in run_dir.glob("cells/*/stats.jsonl"))


def cells_of(run_dir: Path) -> list[Any]:
    """The outcomes, in the order of the run."""
    cells = [json.loads(path.read_text()) for path in run_dir.glob("cells/*/cell.json")]
    return [cell["outcome"] for cell in sorted(cells, key=lambda cell: cell["order"])]


def test_a_suite_that_says_end_ends_before_the_next_cell(tmp_path: Path, workers: Workers) -> None:
    code, run_dir = run_that_loses_one(tmp_path, workers, "end")
    told = (tmp_path / "run.stderr").read_text()
    assert code == 3, told
    assert "1 of 2 load hosts were lost, and the suite says lost_load_host: end" in told
    (first,) = cells_of(run_dir)
    assert {host["name"]: host["state"] for host in first["load_hosts"]}["right"] == "dead"
    assert first["final_read"]["complete"], "the log was read, as of any cell"
    assert json.loads((run_dir / "manifest.json").read_text())["status"] == "failed"
    assert_is_inconclusive_and_names_the_host(tmp_path, run_dir)


def assert_is_inconclusive_and_names_the_host(directory: Path, run_dir: Path) -> None:
    """What the lost host sent is in the log, and nobody has its run log. The first cell failed for it: "348 never sent,
    unlawful"."""
    done = harness(directory, ["report", str(run_dir)])
    assert done.returncode == 4, said(done)
    verdicts = json.loads((run_dir / "results" / "verdicts.json").read_text())
    first = next(cell for cell in verdicts["cells"] if cell["holes"])
    results = {check["name"]: check["result"] for check in first["checks"]}
    assert first["verdict"] == "inconclusive", first["reasons"]
    assert first["unexpected"] > 0, "else this test shows nothing"
    assert results["none never sent"] == results["load hosts held"] == "inconclusive"
    assert "fail" not in results.values(), first["checks"]
    assert [(hole["kind"], hole["where"]) for hole in first["holes"]] == [("load_host", "load host right")]
    for text in (done.stdout, (run_dir / "junit.xml").read_text(), (run_dir / "report.html").read_text()):
        assert "load host right" in text


def test_else_the_run_goes_on_with_those_that_remain(tmp_path: Path, workers: Workers) -> None:
    code, run_dir = run_that_loses_one(tmp_path, workers, "go_on")
    assert code == 4, (tmp_path / "run.stderr").read_text()
    first, *others = cells_of(run_dir)
    assert {host["name"]: host["state"] for host in first["load_hosts"]}["right"] == "dead"
    assert len(others) >= 2
    for cell in others:
        assert cell["status"] == "done"
        assert [(host["name"], host["producers"]) for host in cell["load_hosts"]] == [("left", [0, 1])]
