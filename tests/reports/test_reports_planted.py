"""Tests the checker: it finds planted anomalies of every kind to the record, and nothing else.

In some cases one file is damaged. They are inconclusive and name it, and all others are judged as if it were sound.
`make prove-checker` runs 1,000 cases (PLANTED_CASES). The tests run a part of them: the calm case, each plant and each
damage alone, and some mixed.
"""

from __future__ import annotations

import os
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from reports.analyse.analysis import analyse
from reports.evidence.configuration import configuration_of
from reports.judge.anomalies import ANOMALIES
from reports.judge.checks import FAIL, INCONCLUSIVE
from reports.judge.damage_checks import JUDGED_ELSEWHERE, NEEDS_WHOLE_STREAMS
from reports.judge.evidence_checks import EVIDENCE_CHECKS, READABLE
from reports.judge.lawful import UNLAWFUL, rule
from reports.judge.verdict import judge
from reports.read.model import CellFacts, IdentitySet
from reports.read.run_files import read_run
from tests.reports.duck_rules import sets_by_rule
from tests.reports.planted_case import START_US, Case, Identity
from tests.reports.planted_cases import PLANTS, make_case
from tests.reports.planted_damage import DAMAGES
from tests.reports.planted_doubts import UNREAD
from tests.reports.planted_rows import ENDED_US, MEASURED_US, write_cases

pytestmark = [pytest.mark.spark, pytest.mark.long]
CASES_MIN = len(PLANTS) + len(DAMAGES) + 1
CASES = max(CASES_MIN, int(os.environ.get("PLANTED_CASES", CASES_MIN + 12)))
CASES_PER_RUN = 250  # cells in one run directory
FILE_NAME = re.compile(r"[a-z]+(/[\w-]+)?\.(parquet|jsonl|json)")


def identities(found: IdentitySet | None) -> set[Identity]:
    if found is None:
        return set()
    assert found.complete
    return {
        (item.producer, item.incarnation, seq)
        for item in found.ranges
        for seq in range(item.first_seq, item.last_seq + 1)
    }


Checked = list[tuple[Case, CellFacts]]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, list[Case]]]:
    """Run directories, and the cases of each; every other one as an older version wrote it, without lists of files."""
    directory: Path = tmp_path_factory.mktemp("planted")
    result = []
    for first in range(0, CASES, CASES_PER_RUN):
        numbers = range(first, min(CASES, first + CASES_PER_RUN))
        cases = [make_case(number, is_listed=first // CASES_PER_RUN % 2 == 0) for number in numbers]
        result.append((write_cases(directory / str(first), cases), cases))
    return result


@pytest.fixture(scope="module")
def analysed(spark: SparkSession, written: list[tuple[Path, list[Case]]]) -> Checked:
    """All cases; the sound ones beside the damaged ones, in one analysis."""
    result: Checked = []
    for directory, cases in written:
        result += zip(cases, analyse(spark, read_run(directory)), strict=True)
    return result


@pytest.fixture(scope="module")
def checked(analysed: Checked) -> Checked:
    return [(case, facts) for case, facts in analysed if not case.damage]


def test_the_rules_as_they_are_written_give_the_same_sets(written: list[tuple[Path, list[Case]]]) -> None:
    """By DuckDB, without Spark: what is planted is what the rules say, before anybody looks for it."""
    wrong: list[str] = []
    for directory, cases in written:
        sound = {case.cell_id for case in cases if not case.damage}
        run = read_run(directory)
        run = replace(run, cells=tuple(cell for cell in run.cells if cell.cell_id in sound))
        expected = sets_by_rule(run)
        wrong += [
            f"{case.cell_id} {case.plants}: {name}: {by_cell.get(case.cell_id, set())}, planted {case.truth[name]}"
            for case in cases
            for name, by_cell in expected.items()
            if not case.damage
            if by_cell.get(case.cell_id, set()) != case.truth[name]
        ]
    assert wrong == []


def test_every_anomaly_is_planted_by_some_case(checked: Checked) -> None:
    planted = {
        name for case, _ in checked for name in (*case.truth, *case.counts) if case.truth[name] or case.counts[name]
    }
    assert planted == {anomaly.name for anomaly in ANOMALIES}


def test_what_was_planted_is_found_and_nothing_else(checked: Checked) -> None:
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


def test_what_contradicts_itself_or_was_never_read_is_in_doubt_and_nothing_else(checked: Checked) -> None:
    for case, facts in checked:
        doubted = {check.name for check in judge(facts).checks if check.result == INCONCLUSIVE}
        assert doubted & set(EVIDENCE_CHECKS) == case.doubts, (case.cell_id, case.plants, facts.contradictions)


def test_each_unlawful_anomaly_fails_its_cell_with_a_check_of_its_own(checked: Checked) -> None:
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


ABORTED = 3  # as the workload planned it: no case has a transaction that failed


def counts_of(case: Case) -> dict[str, int]:
    """Counts, from the rows that were written."""
    end_us = START_US + MEASURED_US
    sends, log, received = case.rows["send"], case.rows["log"], case.rows["recv"]
    due = [row for row in sends if START_US <= row["intended_us"] < end_us]
    of_status = dict(enumerate(("acked", "failed", "unknown")))
    return {
        "sent": len(due),
        "sent_total": len(sends),
        **{name: sum(row["status"] == status for row in due) for status, name in of_status.items()},
        **{f"{name}_total": sum(row["status"] == status for row in sends) for status, name in of_status.items()},
        "aborted": sum(row["status"] == ABORTED for row in due),
        "aborted_total": sum(row["status"] == ABORTED for row in sends),
        "log_total": len(log),
        "log_in_window": sum(START_US <= row["intended_us"] < end_us for row in log),
        "received_total": len(received),
        "received_in_window": sum(START_US <= row["intended_us"] < end_us for row in received),
        "corrupt_received": sum(row["crc_ok"] == 0 for row in received),
        "acked_bytes": sum(row["size_bytes"] for row in due if row["status"] == 0),
        "acks_in_window": sum(row["status"] == 0 and START_US <= row["acked_us"] < end_us for row in sends),
        "intended_outside": sum(not 0 <= row["intended_us"] < ENDED_US for row in sends),
    }


def test_what_is_counted_is_what_was_written_also_beside_damaged_cells(checked: Checked) -> None:
    for case, facts in checked:
        assert asdict(facts.counts) == counts_of(case), (case.cell_id, case.plants)


def test_a_damaged_file_is_named_and_no_other_cell_misses_anything(analysed: Checked) -> None:
    for case, facts in analysed:
        named = {found.group() for hole in facts.holes if (found := FILE_NAME.match(hole.what))}
        assert named == ({case.damaged_file} if case.damage else set()), (case.cell_id, case.plants)
        if not case.damage:
            assert facts.holes == (), (case.cell_id, case.plants)


def test_a_damaged_cell_is_inconclusive_and_fails_only_by_what_was_planted(analysed: Checked) -> None:
    """A violation that what is left shows for certain stays one; what a hole could have made is none."""
    for case, facts in analysed:
        if not case.damage:
            continue
        where = (case.cell_id, case.plants, case.damaged_file)
        verdict = judge(facts)
        checks = {check.name: check for check in verdict.checks}
        assert checks[READABLE].result == INCONCLUSIVE, where
        assert case.damaged_file in checks[READABLE].reason, where
        failed = {name for name, check in checks.items() if check.result == FAIL}
        planted = {
            name
            for anomaly in ANOMALIES
            if case.truth[anomaly.name] or case.counts[anomaly.name]
            for name in (f"none {anomaly.title.lower()}", f"{anomaly.name}: none expected")
        }
        assert failed <= planted, where
        assert verdict.result == (FAIL if failed else INCONCLUSIVE), where


def test_each_damage_is_done_to_some_case(analysed: Checked) -> None:
    assert {case.damage for case, _ in analysed} == {*DAMAGES, None}
