"""benchmarks.scenario_results: rows from a finished run, and the page from rows."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import client_damage, scenario_results
from benchmarks.scenario_results import render
from benchmarks.scenario_rows import ROOT, Row, add, read_kept, rows_of
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
    assert client_damage.PAGE.read_text(encoding="utf-8") == client_damage.render(read_kept()), (
        "docs/reference/client-damage.md is not current: python -m benchmarks.scenario_results"
    )


@pytest.mark.thorough
def test_what_acks_0_lost_is_shown_beside_rows_that_did_not_count_it() -> None:
    page = render([_ROW, replace(_ROW, case="acks-0", damage={"lost_unacked": 1200})])
    assert "| acks-0 | 1 of 1, lost without a promise 1,200 |" in page
    assert "| acks-1 | 1 of 1, lost 10 |" in page


@pytest.mark.parametrize(
    ("client", "told", "expected"),
    [
        ("franz-go", "franz-go v1.22.2", "1.22.2"),
        ("kafkajs==2.2.3", "kafkajs 2.2.3", "2.2.3"),
        ("java", "kafka-clients 4.3.1 (Java)", "4.3.1"),
        ("java", "kafka-clients (Java)", ""),
        ("mine", "reference", ""),
    ],
)
def test_the_version_of_a_client_is_the_one_that_it_was_named_with_or_that_it_told(
    tmp_path: Path, client: str, told: str, expected: str
) -> None:
    _verdicts(tmp_path)
    path = tmp_path / "results" / "verdicts.json"
    path.write_text(path.read_text().replace('"client": "confluent"', f'"client": "{client}"'))
    cell = tmp_path / "cells" / "chaos-leader-loss-acks-1"
    cell.mkdir(parents=True)
    document = {"outcome": {"effective": {"client": {"client.library": told}}}}
    (cell / "cell.json").write_text(json.dumps(document))
    assert [row.client_version for row in rows_of(tmp_path)] == [expected]


def test_versions_stand_side_by_side_on_the_page_of_clients_and_not_on_that_of_scenarios() -> None:
    old = replace(_ROW, client="confluent==2.8.2", client_version="2.8.2", damage={"lost": 7})
    new = replace(_ROW, client_version="2.16.1", verdict="fail", damage={"lost": 9})
    kafka = replace(_ROW, cluster="kafka", client_version="2.16.1", damage={"lost": 3})
    page = client_damage.render([replace(_ROW, client="reference"), new, kafka, old])
    assert "## reference" not in page
    assert "| scenario | case | 2.8.2 | 2.16.1 | 2.16.1, Apache Kafka |" in page
    assert (
        "| [leader-loss](scenarios.md#leader-loss) | acks-1 | 1 of 1, lost 7 | 0 of 1, 1 fail (fail: lost 9) "
        "| 1 of 1, lost 3 |"
    ) in page
    assert "2.8.2" not in render([_ROW, old])


def test_what_users_must_know_stands_where_the_page_says() -> None:
    headings = [line[3:] for line in (ROOT / "docs/guide/found.md").read_text().splitlines() if line.startswith("## ")]
    anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    facts = [fact for client in client_damage.KNOWN.values() for fact in client]
    assert facts
    assert {fact.anchor for fact in facts} <= anchors
