"""Retention and compaction under load, with real brokers: what may be removed is counted apart, and is not lost."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ExitCode
from runlog.streams.parquet import read_stream
from tests.harness.harness_process import REPOSITORY
from tests.patience import run_command

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.spark]
# Each cell keeps much less than it gets, and its leader dies once: its successor has removed records too. A broker
# looks at retention for the first time 30 s after its start, as Apache Kafka does.
SCENARIO = """
name: NAME
title: NAME
damage: none
source: written for this test
topic: {partitions: 1, replication_factor: 3, config: {min.insync.replicas: 2, segment.bytes: 20000, CONFIG}}
broker_settings: {log.retention.check.interval.ms: 200, log.cleaner.backoff.ms: 100}
properties: {acks: all, linger.ms: 5, batch.size: 4096}
workload: {rate_per_s: 500, record_size_bytes: 200, producers: 1, consumers: 1, warmup_ms: 500, measure_ms: 60000,
           drain_ms: 10000 KEYS}
until_done: true
timeline:
  - {id: kill, at: 33s, fault: kill, target: leader}
  - {id: elected, when: leader changed, within: 30s}
  - {id: return, after: elected, delay: 1s, heal: kill}
  - {id: in-sync, when: isr == 3, within: 60s}
cases:
  only: {title: NAME, properties: {enable.idempotence: true}}
"""
SUITE = """
name: retention
workload: {rate_per_s: 500, record_size_bytes: 200}
chaos: [SCENARIOS]
"""
SIZE = ("by-size", 'retention.bytes: "60000"', "")
AGE = ("by-age", 'retention.ms: "2000"', "")
COMPACTED = ("compacted", "cleanup.policy: compact, min.cleanable.dirty.ratio: 0.01", ", keys: uniform, key_count: 20")


def run(directory: Path, *scenarios: tuple[str, str, str]) -> tuple[int, Path]:
    paths = []
    for name, config, keys in scenarios:
        path = directory / f"{name}.yaml"
        path.write_text(SCENARIO.replace("NAME", name).replace("CONFIG", config).replace(" KEYS", keys))
        paths.append(f"{{scenario: {path}}}")
    suite = directory / "retention.yaml"
    suite.write_text(SUITE.replace("SCENARIOS", ", ".join(paths)))
    done = run_command(
        [sys.executable, "-m", "harness", "run", str(suite), "--run-dir", str(directory / "run"), "--no-certify"],
        cwd=REPOSITORY,
        env={**os.environ, "XDG_STATE_HOME": str(directory / "state")},
    )
    return done.returncode, directory / "run"


def verdicts(run_dir: Path) -> dict[str, dict[str, Any]]:
    cells = json.loads((run_dir / "results" / "verdicts.json").read_text())["cells"]
    return {cell["cell_id"]: cell for cell in cells}


def acknowledged_below(run_dir: Path, cell_id: str, start: int) -> int:
    sends = read_stream(run_dir, "send", cell_id).to_pydict()
    return sum(
        status == 0 and 0 <= offset < start for status, offset in zip(sends["status"], sends["offset"], strict=True)
    )


def test_retention_by_size_and_by_age_removes_records_lawfully_and_exactly(tmp_path: Path) -> None:
    code, run_dir = run(tmp_path, SIZE, AGE)
    found = verdicts(run_dir)
    assert len(found) == 2
    for cell_id, cell in found.items():
        document = json.loads((run_dir / "cells" / cell_id / "cell.json").read_text())
        start = document["outcome"]["final_read"]["start_offsets"]["0"]
        assert start > 500, cell_id
        assert cell["verdict"] == "pass", (cell_id, cell["reasons"])
        assert (cell["lost"], cell["predicted"]["lost"]["predicted"]) == (0, 0), cell_id
        assert cell["observed_sets"]["removed"]["count"] == acknowledged_below(run_dir, cell_id, start), cell_id
        assert any("removed before the final read" in note for note in cell["notes"]), cell["notes"]
    assert code == ExitCode.PASS


def test_compaction_removes_records_lawfully_and_exactly(tmp_path: Path) -> None:
    """Replicas compact by themselves, and the leader dies: all that is not in the log has a newer record of its key."""
    code, run_dir = run(tmp_path, COMPACTED)
    ((cell_id, cell),) = verdicts(run_dir).items()
    sent = read_stream(run_dir, "send", cell_id).to_pydict()
    left = set(read_stream(run_dir, "log", cell_id).to_pydict()["seq"])
    acknowledged = {seq for seq, status in zip(sent["seq"], sent["status"], strict=True) if status == 0}
    assert len(acknowledged - left) > 500
    assert cell["verdict"] == "pass", cell["reasons"]
    assert (cell["lost"], cell["observed_sets"]["removed"]["count"]) == (0, len(acknowledged - left))
    assert any("(compaction)" in note for note in cell["notes"]), cell["notes"]
    assert code == ExitCode.PASS
