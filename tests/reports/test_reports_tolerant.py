"""A cell whose analysis fails is found among many, within a bound, and costs no other cell."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.analyse.tolerant import ATTEMPTS_MAX, EveryCellFailsError, facts_of_all, unusable
from reports.judge.checks import INCONCLUSIVE
from reports.judge.verdict import judge
from reports.read.cell import Cell
from reports.read.errors import EnvironmentProblem
from reports.read.model import CellFacts
from tests.reports.cells import make_cell


def cells(number: int) -> list[Cell]:
    return [make_cell(cell_id=f"c{index}", document={"title": f"T{index}"}) for index in range(number)]


class Analysis:
    """Fails when one of the bad cells is among those asked for."""

    def __init__(self, bad: set[str]) -> None:
        self.bad, self.calls = bad, 0

    def __call__(self, asked: Sequence[Cell]) -> list[CellFacts]:
        self.calls += 1
        found = sorted({cell.cell_id for cell in asked} & self.bad)
        if found:
            raise ValueError(f"Too long sequence in {found[0]}")
        return [CellFacts(cell=cell, unseen=7) for cell in asked]


@given(number=st.integers(min_value=1, max_value=300), bad=st.sets(st.integers(min_value=0, max_value=299), max_size=2))
@pytest.mark.thorough
def test_exactly_the_bad_cells_are_unusable_and_the_order_stays(number: int, bad: set[int]) -> None:
    analyse = Analysis({f"c{index}" for index in bad})
    asked = cells(number)
    if number == 2 and bad >= {0, 1}:
        return
    found = facts_of_all(asked, analyse)
    assert [item.cell.cell_id for item in found] == [cell.cell_id for cell in asked]
    assert {item.cell.cell_id for item in found if item.unseen != 7} == analyse.bad & {cell.cell_id for cell in asked}
    assert analyse.calls <= ATTEMPTS_MAX


@pytest.mark.thorough
def test_the_attempts_have_a_bound_and_what_was_not_analysed_says_so() -> None:
    analyse = Analysis({f"c{index}" for index in range(0, 1000, 3)})
    found = facts_of_all(cells(1000), analyse)
    assert analyse.calls == ATTEMPTS_MAX
    assert len(found) == 1000
    assert any("too many other cells" in item.holes[0].what for item in found if item.unseen != 7)


def test_a_fault_of_every_cell_is_none_of_theirs() -> None:
    def broken(_asked: Sequence[Cell]) -> list[CellFacts]:
        raise KeyError("our bug")

    with pytest.raises(EveryCellFailsError, match="our bug"):
        facts_of_all(cells(3), broken)


def test_without_spark_no_cell_is_blamed() -> None:
    def gone(_asked: Sequence[Cell]) -> list[CellFacts]:
        raise EnvironmentProblem("the server ended")

    with pytest.raises(EnvironmentProblem):
        facts_of_all(cells(3), gone)


def test_an_unusable_cell_is_inconclusive_and_says_why() -> None:
    odd = make_cell(cell_id="c", document={"kind": 7, "title": ["x"], "outcome": {"status": {}}, "expect": "all"})
    verdict = judge(unusable(odd, "its analysis failed: OverflowError"))
    assert verdict.result == INCONCLUSIVE
    assert "its analysis failed: OverflowError" in str(verdict.reasons)
