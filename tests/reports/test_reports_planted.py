"""The checker is tested: planted anomalies of every kind are found to the record, and nothing else is.

`make prove-checker` runs 1,000 cases (PLANTED_CASES); the tests a part: the calm case, each plant alone, some mixed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from reports.analyse import analyse
from reports.anomalies import ANOMALIES
from reports.lawful import UNLAWFUL, configuration_of, rule
from reports.model import CellFacts, IdentitySet
from reports.rundir import read_run
from reports.verdict import EVIDENCE_CHECKS, FAIL, INCONCLUSIVE, JUDGED_ELSEWHERE, NEEDS_WHOLE_STREAMS, judge
from tests.reports.duck_rules import sets_by_rule
from tests.reports.planted_cases import PLANTS, Case, Identity, make_case, write_cases
from tests.reports.planted_doubts import UNREAD

pytestmark = pytest.mark.spark
CASES_MIN = len(PLANTS) + 1
CASES = max(CASES_MIN, int(os.environ.get("PLANTED_CASES", CASES_MIN + 12)))
CASES_PER_RUN = 250  # cells in one run directory


def identities(found: IdentitySet | None) -> set[Identity]:
    if found is None:
        return set()
    assert found.complete
    return {
        (item.producer, item.incarnation, seq)
        for item in found.ranges
        for seq in range(item.first_seq, item.last_seq + 1)
    }


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, list[Case]]]:
    """Run directories, and the cases of each."""
    directory: Path = tmp_path_factory.mktemp("planted")
    result = []
    for first in range(0, CASES, CASES_PER_RUN):
        cases = [make_case(number) for number in range(first, min(CASES, first + CASES_PER_RUN))]
        result.append((write_cases(directory / str(first), cases), cases))
    return result


@pytest.fixture(scope="module")
def checked(spark: SparkSession, written: list[tuple[Path, list[Case]]]) -> list[tuple[Case, CellFacts]]:
    result: list[tuple[Case, CellFacts]] = []
    for directory, cases in written:
        result += zip(cases, analyse(spark, read_run(directory)), strict=True)
    return result


def test_the_rules_as_they_are_written_give_the_same_sets(written: list[tuple[Path, list[Case]]]) -> None:
    """By DuckDB, without Spark: what is planted is what the rules say, before anybody looks for it."""
    wrong: list[str] = []
    for directory, cases in written:
        expected = sets_by_rule(read_run(directory))
        wrong += [
            f"{case.cell_id} {case.plants}: {name}: {by_cell.get(case.cell_id, set())}, planted {case.truth[name]}"
            for case in cases
            for name, by_cell in expected.items()
            if by_cell.get(case.cell_id, set()) != case.truth[name]
        ]
    assert wrong == []


def test_every_anomaly_is_planted_by_some_case(checked: list[tuple[Case, CellFacts]]) -> None:
    planted = {
        name for case, _ in checked for name in (*case.truth, *case.counts) if case.truth[name] or case.counts[name]
    }
    assert planted == {anomaly.name for anomaly in ANOMALIES}


def test_what_was_planted_is_found_and_nothing_else(checked: list[tuple[Case, CellFacts]]) -> None:
    wrong: list[str] = []
    for case, facts in checked:
        for anomaly in ANOMALIES:
            if anomaly.name in facts.findings:
                expected, found = case.counts[anomaly.name], facts.findings[anomaly.name].count
                if expected != found:
                    wrong.append(f"{case.cell_id} {case.plants}: {anomaly.name}: {expected} planted, {found} found")
                continue
            mine, its = case.truth[anomaly.name], identities(facts.observed.get(anomaly.name))
            if mine != its:
                wrong.append(
                    f"{case.cell_id} {case.plants}: {anomaly.name}: missed {mine - its}, invented {its - mine}"
                )
    assert wrong == []


def test_what_contradicts_itself_or_was_never_read_is_in_doubt_and_nothing_else(
    checked: list[tuple[Case, CellFacts]],
) -> None:
    for case, facts in checked:
        doubted = {check.name for check in judge(facts).checks if check.result == INCONCLUSIVE}
        assert doubted & set(EVIDENCE_CHECKS) == case.doubts, (case.cell_id, case.plants, facts.contradictions)


def test_each_unlawful_anomaly_fails_its_cell_with_a_check_of_its_own(checked: list[tuple[Case, CellFacts]]) -> None:
    for case, facts in checked:
        failed = {check.name for check in judge(facts).checks if check.result == FAIL}
        for anomaly in ANOMALIES:
            is_there = bool(case.truth[anomaly.name]) or case.counts[anomaly.name] > 0
            is_unlawful = rule(anomaly.name, configuration_of(facts.cell)).lawful == UNLAWFUL
            if anomaly.name in NEEDS_WHOLE_STREAMS and case.doubts - {UNREAD}:
                continue  # where the evidence is in doubt nobody can be sure of what is missing
            if anomaly.name not in JUDGED_ELSEWHERE:
                assert (f"none {anomaly.title.lower()}" in failed) == (is_there and is_unlawful), (
                    case.cell_id,
                    anomaly.name,
                )
