"""Seventy rows that say nothing become one line; what decides, or what one side lacks, stays."""

from __future__ import annotations

from typing import cast

import pytest

from reports.figures.compare.compared import Compared, comparison_figures
from reports.figures.compare.comparison import UNDECIDED, WHOLE_RUN, WORSE, compare, pair_up
from reports.figures.compare.folding import fold
from reports.figures.compare.likeness import Likeness
from reports.render.comparison import render, text
from tests.reports.comparison_trials import made_run, trial


def test_the_undecided_rows_of_two_demos_fold_into_a_line() -> None:
    found = fold(trial(1, cells=14, repetitions=1, noise=0.05).rows)
    assert len(found.rows) == 42
    assert found.line == (
        "42 figures of 14 cells are undecided one by one (throughput, p99, broker cpu): "
        "1 and 1 repetitions; 4 a side are needed to judge a cell alone"
    )
    assert {row.cell for row in found.shown} == {WHOLE_RUN}


def test_what_is_worse_and_what_one_side_lacks_is_never_folded() -> None:
    base, new = made_run(1, cells=14, repetitions=5), made_run(2, cells=14, repetitions=5, change=0.5, changed_cells=1)
    new = [cell for cell in new if cell.name != "cell-3"]
    new += [cell for cell in made_run(3, cells=14, repetitions=5) if cell.name == "cell-3"]
    lacking = [cell for cell in new if cell.name == "cell-5"]
    for cell in lacking:
        del cast("dict[str, float]", cell.values)["p99"]
    found = fold(compare(pair_up(base, new)).rows)
    assert ("cell-0", "p99", WORSE) in {(row.cell, row.measure, row.result) for row in found.shown}
    assert ("cell-5", "p99", UNDECIDED) in {(row.cell, row.measure, row.result) for row in found.shown}


def test_a_few_rows_are_shown_as_they_are() -> None:
    found = fold(trial(1, cells=1, repetitions=2, noise=0.05).rows)
    assert (len(found.shown), found.rows, found.line) == (3, (), "")


@pytest.mark.thorough
def test_terminal_and_page_have_the_line_instead_of_the_rows() -> None:
    item = Compared(
        base="one", new="two", comparison=trial(1, cells=14, repetitions=1, noise=0.05),
        likeness=Likeness(unlike=(), differs=(), warnings=()), forced=False, only_base=(), only_new=(),
    )  # fmt: skip
    line = fold(item.comparison.rows).line
    printed = text(comparison_figures(item))
    assert f"? {line}" in printed
    assert not any(row.startswith("cell-") for row in printed)
    page = render(comparison_figures(item))
    assert page.count(line) == 1
    assert page.index(line) < page.index(">cell-0<")
