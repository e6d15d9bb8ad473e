"""`harness confirm`: the recommended configuration is found in a run's files, runs again, and is held against it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli.load.confirm import read_recommended
from harness.cli.main import execute
from harness.errors import ExitCode, UsageError
from harness.plan import build_plan
from harness.scenarios import cases_of
from harness.suite import load_suite
from reports.figures.compare.confirm import confirm, exit_code
from runlog.records.results import read_measurements
from tests.reports.sweep_facts import predicted_figures

SUITE = """\
name: two
cluster: {brokers: 1}
topic: {partitions: 1, replication_factor: 1, config: {min.insync.replicas: 1}}
workload: {rate_per_s: 1000, record_size_bytes: 100, consumers: 1, warmup_ms: 300, measure_ms: 2000, drain_ms: 3000}
sweep:
  repetitions: 2
  forks: 2
  baseline: {acks: all, linger.ms: 5}
  vary: {linger.ms: [100]}
"""


def run_directory(tmp_path: Path, recommendation: dict[str, object] | None) -> Path:
    suite = tmp_path / "two.yaml"
    suite.write_text(SUITE)
    document = load_suite(str(suite)).model_dump(mode="json", by_alias=True)
    directory = tmp_path / "run"
    (directory / "results").mkdir(parents=True)
    manifest = {"suite_document": document, "engine": "reference", "client": "reference", "seed": 4}
    (directory / "manifest.json").write_text(json.dumps(manifest))
    (directory / "results" / "sweep.json").write_text(json.dumps({"recommendation": recommendation}))
    return directory


def test_the_recommended_cell_alone_runs_as_often_as_asked(tmp_path: Path) -> None:
    found = read_recommended(run_directory(tmp_path, {"cell_id": "sweep-100_all-r2", "predicted": {}}), 3)
    assert found.cells == ("sweep-100_all-r1", "sweep-100_all-r2", "sweep-100_all-r3")
    assert found.suite.sweep is not None
    assert (found.suite.sweep.repetitions, found.suite.sweep.forks) == (3, 1)
    assert (found.suite.name, found.suite.chaos, found.seed) == ("two-confirm", [], 5)


def test_limits_for_cells_that_are_not_confirmed_do_not_matter(tmp_path: Path) -> None:
    directory = run_directory(tmp_path, {"cell_id": "sweep-100_all-r2", "predicted": {}})
    manifest = json.loads((directory / "manifest.json").read_text())
    manifest["suite_document"]["limits"] = [{"limit": "gap_ms <= 4000", "cells": ["chaos-*"]}]
    (directory / "manifest.json").write_text(json.dumps(manifest))
    suite = read_recommended(directory, 2).suite
    assert len(build_plan(suite, cases_of, seed=1, client="reference")) == 4


def test_a_sweep_without_repetitions_has_no_number_to_take_off(tmp_path: Path) -> None:
    found = read_recommended(run_directory(tmp_path, {"cell_id": "sweep-baseline", "predicted": {}}), 2)
    assert found.cells == ("sweep-baseline-r1", "sweep-baseline-r2")


def test_a_latin_hypercube_keeps_its_points(tmp_path: Path) -> None:
    directory = run_directory(tmp_path, {"cell_id": "sweep-100_all-r1", "predicted": {}})
    manifest = json.loads((directory / "manifest.json").read_text())
    values = list(range(0, 100, 5))
    manifest["suite_document"]["sweep"].update(design="latin-hypercube", samples=6, vary={"linger.ms": values})
    (directory / "manifest.json").write_text(json.dumps(manifest))
    found = read_recommended(directory, 2)
    planned = build_plan(found.suite, cases_of, seed=found.seed, client="reference")
    of_the_sweep = build_plan(found.suite, cases_of, seed=4, client="reference")
    assert {cell.cell_id for cell in planned} == {cell.cell_id for cell in of_the_sweep}


def test_a_sweep_that_recommends_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="recommends nothing"):
        read_recommended(run_directory(tmp_path, None), 3)


def test_a_directory_without_a_sweep_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["confirm", str(tmp_path)]) == ExitCode.USAGE
    assert f"{tmp_path} is no run directory: it has no manifest.json" in capsys.readouterr().err
    (tmp_path / "manifest.json").write_text("{}")
    assert execute(["confirm", str(tmp_path)]) == ExitCode.USAGE
    assert "no results/sweep.json; confirm needs an analysed sweep" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.spark
def test_a_recommendation_is_run_again_and_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite = tmp_path / "two.yaml"
    suite.write_text(SUITE)
    assert execute(["run", str(suite), "--run-dir", str(tmp_path / "sweep"), "--no-report"]) == ExitCode.PASS
    (tmp_path / "sweep" / "results").mkdir(exist_ok=True)
    predicted = {
        "throughput": {"value": 1000.0, "low": 990.0, "high": 1010.0, "unit": "records/s"},
        "p99": {"value": 8.0, "low": 7.0, "high": 9.0, "unit": "ms"},
    }
    recommendation = {"cell_id": "sweep-baseline-r1", "predicted": predicted}
    (tmp_path / "sweep" / "results" / "sweep.json").write_text(json.dumps({"recommendation": recommendation}))
    code = execute(["confirm", str(tmp_path / "sweep"), "--repetitions", "2", "--run-dir", str(tmp_path / "new")])
    measured = read_measurements(tmp_path / "new")
    assert [(cell.name, cell.properties["linger.ms"]) for cell in measured] == [("sweep-baseline", "5")] * 2
    values = {name: [cell.values[name] for cell in measured if name in cell.values] for name in predicted}
    expected = confirm(predicted_figures(predicted), values)
    document = json.loads((tmp_path / "new" / "results" / "confirm.json").read_text())
    assert [each["result"] for each in document["measures"]] == [each.result for each in expected]
    assert code == exit_code(expected)
    lines = capsys.readouterr().out.splitlines()
    assert "predicted from one cluster" in lines[-4]
    assert lines[-1] == str(tmp_path / "new" / "report.html")
    assert [line.split()[-1] for line in lines[-3:-1]] == [each.result.split()[-1] for each in expected]
