"""benchmarks.scenario_results: rows from a finished run, and the page from rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import scenario_results
from benchmarks.scenario_results import Row, add, read_kept, render, rows_of
from harness.errors import UsageError

_ROW = Row(
    started="2026-01-01T10:00:00.000+00:00",
    commit="abc",
    cluster="reference",
    client="confluent",
    client_version="2",
    scenario="leader-loss",
    case="acks-1",
    cell_id="chaos-leader-loss-acks-1",
    verdict="pass",
    reason="",
    damage={"lost": 10, "duplicated": 0, "reordered": 0},
)


def _verdicts(run_dir: Path) -> None:
    cell = {
        "cell_id": "chaos-leader-loss-acks-1",
        "kind": "chaos",
        "client": "confluent",
        "scenario": "leader-loss",
        "case": "acks-1",
        "verdict": "fail",
        "checks": [
            {"name": "a", "result": "pass", "reason": "well"},
            {"name": "b", "result": "fail", "reason": "7 too many"},
        ],
        "lost": 7,
        "duplicated": None,
        "reordered": 0,
        "anomalies": {"lost_unacked": 3, "phantom": 0},
    }
    run = {
        "t0_wall": "2026-01-02T10:00:00.000+00:00",
        "engine": "kafka",
        "versions": {"commit": "def", "confluent-kafka": "2.16.1"},
    }
    (run_dir / "results").mkdir(parents=True)
    document = {"run": run, "cells": [cell, {**cell, "kind": "sweep"}]}
    (run_dir / "results" / "verdicts.json").write_text(json.dumps(document))


def test_chaos_cells_of_a_run_become_rows(tmp_path: Path) -> None:
    _verdicts(tmp_path / "run")
    [row] = rows_of(tmp_path / "run")
    assert (row.cluster, row.client, row.client_version, row.verdict) == ("kafka", "confluent", "2.16.1", "fail")
    assert row.reason == "7 too many"
    assert row.damage == {"lost": 7, "lost_unacked": 3, "duplicated": 0, "reordered": 0}


def test_a_run_without_analysis_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="harness report"):
        rows_of(tmp_path)


def test_the_same_run_added_twice_counts_once() -> None:
    again = replace(_ROW, verdict="fail")
    assert add([_ROW], [again]) == [again]


@pytest.mark.thorough
def test_the_page_counts_passes_and_ranges_and_names_what_did_not_pass() -> None:
    second = replace(_ROW, started="2026-01-03", damage={"lost": 30, "duplicated": 0, "reordered": 0})
    failed = replace(_ROW, started="2026-01-04", verdict="fail", reason="21 not predicted")
    page = render([_ROW, second, failed])
    assert "| acks-1 | 2 of 3, 1 fail, lost 10–30 |" in page
    assert "- 2026-01-04, leader-loss acks-1, reference with confluent (commit abc): **fail**, 21 not predicted" in page
    assert "| [leader-loss](scenarios.md#leader-loss) | acks-all | – |" in page


@pytest.mark.thorough
def test_the_page_in_docs_is_what_the_kept_rows_give() -> None:
    assert scenario_results.PAGE.read_text(encoding="utf-8") == render(read_kept()), (
        "docs/reference/scenario-results.md is not current: python -m benchmarks.scenario_results"
    )


def test_what_acks_0_lost_is_shown_beside_rows_that_did_not_count_it() -> None:
    page = render([_ROW, replace(_ROW, case="acks-0", damage={"lost_unacked": 1200})])
    assert "| acks-0 | 1 of 1, lost without a promise 1,200 |" in page
    assert "| acks-1 | 1 of 1, lost 10 |" in page
