"""Tests the checker with holes in real rows: no false pass, no false fail, and nothing else changes.

Each planted case is written twice: whole, and with one hole. So the whole one says what is true, and the tables of
`reports.judge.holes` are held against it. `make prove-checker` runs 500 pairs (PLANTED_CASES), with each kind of hole
in each phase. The tests run each kind twice, and the anomalies in turn.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from reports.analyse.analysis import analyse
from reports.judge.checks import FAIL, INCONCLUSIVE, PASS, Check, Verdict
from reports.judge.holes import TOUCHES
from reports.judge.verdict import judge
from reports.read.run_files import read_run
from runlog.records.holes import HoleKind
from tests.reports.planted_case import Case
from tests.reports.planted_cases import PLANTS, make_case
from tests.reports.planted_holes import Plan, make_hole, plans
from tests.reports.planted_rows import write_cases

pytestmark = [pytest.mark.spark, pytest.mark.long]
PLANS = plans()
PAIRS = max(2 * len(HoleKind), int(os.environ.get("PLANTED_CASES", 0)) // 2)
PAIRS_PER_RUN = 125


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    case: Case
    plan: Plan
    whole: Verdict
    holed: Verdict

    def checks(self) -> Iterator[tuple[Check, Check]]:
        """Each check of the whole cell, and the same one of the cell with the hole."""
        holed = {check.name: check for check in self.holed.checks}
        yield from ((check, holed[check.name]) for check in self.whole.checks)

    @property
    def where(self) -> str:
        return f"{self.case.cell_id} {self.case.plants} {self.plan}"


@pytest.fixture(scope="module")
def pairs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Pair]:
    """The plants in turn, each with another kind of hole; afterwards several plants and any hole."""
    directory: Path = tmp_path_factory.mktemp("holes")
    found: list[Pair] = []
    for first in range(0, PAIRS, PAIRS_PER_RUN):
        run_dir = directory / str(first)
        numbers = range(first, min(PAIRS, first + PAIRS_PER_RUN))
        own = [(PLANS[number % len(PLANS)], case_of(number), case_of(number)) for number in numbers]
        for _, _, holed in own:
            holed.cell_id += "-holed"
        write_cases(run_dir, [case for _, whole, holed in own for case in (whole, holed)])
        for plan, whole, holed in own:
            make_hole(run_dir, whole.cell_id, holed.cell_id, plan)
        judged = {facts.cell.cell_id: judge(facts) for facts in analyse(spark, read_run(run_dir))}
        found += [
            Pair(case=whole, plan=plan, whole=judged[whole.cell_id], holed=judged[holed.cell_id])
            for plan, whole, holed in own
        ]
    return found


def case_of(number: int) -> Case:
    """The one plant of its number, without damage of a file; beyond the number of plants any."""
    seed = 1 + number % len(PLANTS) if number < len(PLANS) else 10_000 + number
    case = make_case(seed)
    case.cell_id, case.damage = f"pair-{number:04d}", None
    return case


def test_there_is_no_false_pass_and_no_false_fail(pairs: list[Pair]) -> None:
    wrong = [
        f"{pair.where}: {whole.name} is {holed.result}, and {whole.result} if nothing is missing: {holed.reason}"
        for pair in pairs
        for whole, holed in pair.checks()
        if holed.result != INCONCLUSIVE and whole.result not in (holed.result, INCONCLUSIVE)
    ]
    assert wrong == []


def test_what_does_not_rest_on_the_hole_is_as_it_was(pairs: list[Pair]) -> None:
    """Streams that contradict each other for it leave open what is missing from them: that is no false verdict."""
    wrong = [
        f"{pair.where}: {whole.name} is {holed.result}, was {whole.result}: {holed.reason}"
        for pair in pairs
        for whole, holed in pair.checks()
        if whole.rests.on and not whole.rests.on & TOUCHES[pair.plan.kind]
        if holed.result != whole.result and not (holed.result == INCONCLUSIVE and contradicts(pair.holed))
    ]
    assert wrong == []


def contradicts(verdict: Verdict) -> bool:
    return any(check.name == "run log agrees with itself" and check.result != PASS for check in verdict.checks)


def test_a_cell_with_a_hole_is_no_pass_and_the_hole_is_told(pairs: list[Pair]) -> None:
    for pair in pairs:
        own = [hole for hole in pair.holed.holes if hole.kind is pair.plan.kind]
        assert own, pair.where
        told = " ".join(check.reason for check in pair.holed.checks)
        assert all(hole.text() in told for hole in own), pair.where
        if pair.plan.kind != "samples":
            assert pair.holed.result != PASS, pair.where


def test_some_violations_are_proved_beside_a_hole_and_some_are_not(pairs: list[Pair]) -> None:
    """Else the tests above would hold of a checker that never says anything."""
    failed = [(whole, holed) for pair in pairs for whole, holed in pair.checks() if whole.result == FAIL]
    proved = [holed for _, holed in failed if holed.result == FAIL]
    assert len(proved) > len(failed) / 10
    assert len(proved) < len(failed)
