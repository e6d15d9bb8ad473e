"""SIGKILL of the worker that holds a broker of somebody else: nobody mends it, and that is not the cluster's fault.

A whole run, with its report: the cell is inconclusive and names the host, whatever the cluster then looks like, and
the worker's next start brings the broker back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ExitCode
from tests.harness.load_workers import RUN_QUIET_S, started_harness
from tests.harness.strangers import FaultWorkers, Strangers
from tests.json_lines import read_jsonl
from tests.patience import communicate, files_seen, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.spark, pytest.mark.timeout(1_800)]

SCENARIO = """
name: held
title: A broker is held for a while
damage: loss
source: written for this test
topic: {partitions: 1, replication_factor: 3, config: {min.insync.replicas: 1}}
properties: {acks: "1", enable.idempotence: false, linger.ms: 5, max.in.flight.requests.per.connection: 1}
workload: {rate_per_s: 300, record_size_bytes: 200, producers: 1, warmup_ms: 200, measure_ms: 8000, drain_ms: 5000}
timeline:
  - {id: held, at: 500ms, fault: FAULT, target: "TARGET"}
  - {id: let-go, after: held, delay: 4s, heal: held}
cases:
  only: {title: "acks=1", expect: {lost: exact}}
"""
SUITE = "name: held\nworkload: {rate_per_s: 300, record_size_bytes: 200}\n"


@pytest.fixture
def strangers(tmp_path: Path) -> Iterator[Strangers]:
    found = Strangers(tmp_path / "strangers")
    try:
        found.start()
        yield found
    finally:
        found.stop()


def held_broker(run_dir: Path) -> int:
    """Of the fault that was applied; 0 before."""
    for path in run_dir.glob("cells/*/faults.jsonl"):
        for line in read_jsonl(path):
            if line["id"] == "held" and line["phase"] == "proved":
                return int(line["resolved"][0])
    return 0


@pytest.mark.parametrize(("fault", "target"), [("pause", "follower:0"), ("kill", "leader")])
def test_a_broker_that_a_dead_worker_holds_makes_a_cell_inconclusive(
    tmp_path: Path, strangers: Strangers, fault: str, target: str
) -> None:
    scenario, suite, run_dir = tmp_path / "held.yaml", tmp_path / "suite.yaml", tmp_path / "run"
    scenario.write_text(SCENARIO.replace("FAULT", fault).replace("TARGET", target))
    suite.write_text(SUITE + f"chaos: [{{scenario: {scenario}}}]\n")
    workers = FaultWorkers(tmp_path, strangers)
    process = started_harness(
        tmp_path,
        [
            "run", str(suite), "--yes", "--cluster", "external", "--bootstrap-server", strangers.bootstrap_servers,
            "--toxiproxy", "embedded", "--no-certify", "--run-dir", str(run_dir), *workers.options,
        ],
    )  # fmt: skip
    try:
        wait_until(
            lambda: process.poll() is not None or bool(held_broker(run_dir)), "the fault", seen=files_seen(tmp_path),
            poll_s=0.05,
        )  # fmt: skip
        broker = held_broker(run_dir)
        assert broker, (tmp_path / "run.stderr").read_text()
        workers.kill(broker)
        communicate(process, "the end of the run", quiet_s=RUN_QUIET_S)
        assert not strangers.are_well(), "nobody could mend it"
        workers.start(broker)  # as an init system does, or an operator who was told
        wait_until(strangers.are_well, "the next worker brings the broker back")
    finally:
        process.kill()
        process.wait(timeout=60)
        workers.close()
    said = (tmp_path / "run.stderr").read_text()
    assert process.returncode == ExitCode.INCONCLUSIVE, said
    verdicts: dict[str, Any] = json.loads((run_dir / "results" / "verdicts.json").read_text())
    (cell,) = verdicts["cells"]
    assert cell["verdict"] == "inconclusive"
    assert any("a heal of ours failed" in reason and f"host-{broker}" in reason for reason in cell["reasons"])
    assert "faults" in {hole["kind"] for hole in cell["holes"]}, "what the fault did after that is not known"
    assert f"host-{broker}" in said, "the operator of the run is told which host"
