"""A small sweep with both measures, with real processes, from the suite to the tables of the report."""

from __future__ import annotations

import csv
import json
import os
import sys
from pathlib import Path

import pytest

from harness.errors import ExitCode
from reports.read.run_files import read_run
from tests.harness.harness_process import REPOSITORY
from tests.patience import run_command

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.spark]
SUITE = """
name: both
seed: 3
workload: {rate_per_s: 300, record_size_bytes: 1024, consumers: 1, warmup_ms: 300, measure_ms: 1500, drain_ms: 8000}
sweep:
  repetitions: 2
  repeat_share: 0
  ceiling: {outstanding: 512, warmup_ms: 300, measure_ms: 1500}
  baseline: {acks: all, batch.size: 16384}
  vary: {batch.size: [2048]}
"""


def test_a_sweep_with_ceilings_has_capacity_and_p99_of_each_configuration(tmp_path: Path) -> None:
    suite, run = tmp_path / "both.yaml", tmp_path / "run"
    suite.write_text(SUITE)
    done = run_command(
        [sys.executable, "-m", "harness", "run", str(suite), "--run-dir", str(run), "--no-certify"],
        cwd=REPOSITORY,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
    )  # fmt: skip
    assert done.returncode in (ExitCode.PASS, ExitCode.INCONCLUSIVE), done.stderr
    assert "capacity" in done.stdout.splitlines()[0]

    manifest = json.loads((run / "manifest.json").read_text())
    ids = manifest["cells"]
    names = {"sweep-baseline", "sweep-batch.size-2048", "ceiling-baseline", "ceiling-batch.size-2048"}
    assert {name.removesuffix("-r1") for name in ids[:4]} == names, "the first round comes first"
    assert {name.removesuffix("-r2") for name in ids[4:]} == names

    with (run / "results" / "cells.csv").open() as file:
        rows = {row["cell_id"]: row for row in csv.DictReader(file)}
    analysis = json.loads((run / "results" / "sweep.json").read_text())
    for cell in analysis["cells"]:
        row = rows[cell["cell_id"]]
        if row["kind"] == "ceiling" and cell["state"] == "ok":
            assert set(cell["values"]) == {"capacity"}
            assert float(row["capacity_records_per_s"]) == float(row["throughput_records_per_s"])
        if row["kind"] == "sweep":
            assert "capacity" not in cell["values"]
    assert {"capacity_records_per_s", "p99_ms"} <= set(_surface(run)[0])
    assert all(cell.record.outcome.health.limiting_cpu_share is not None for cell in read_run(run).cells)
    assert "capacity" in (run / "summary.md").read_text()


def _surface(run: Path) -> list[dict[str, str]]:
    with (run / "results" / "surface.csv").open() as file:
        return list(csv.DictReader(file))
