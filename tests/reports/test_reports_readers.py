"""Groups of readers beside each other: each has its own end-to-end latency, and a late one shows that a fault reached
it."""

from __future__ import annotations

import csv

import pytest

from chaos.criterion import criterion
from reports.figures.cell import CellFigures
from reports.judge import figure_checks
from tests.reports.readers_run import LATE_US, Analysed

pytestmark = pytest.mark.spark


def cells_of(analysed: Analysed) -> list[CellFigures]:
    """late, calm, single"""
    cells = {cell.id: cell for cell in analysed.figures.cells}
    return [cells[name] for name in ("late", "calm", "single")]


def test_each_group_has_its_own_latency(analysed: Analysed) -> None:
    late, calm, single = cells_of(analysed)
    leaders, near = late.readers
    assert (leaders.name, leaders.consumers, leaders.settings) == ("leaders", 2, "")
    assert (near.name, near.consumers, near.settings) == ("near", 1, "client.rack=b")
    assert leaders.latency.n == near.latency.n > 1000
    for one, other in zip(leaders.latency.quantiles.values(), near.latency.quantiles.values(), strict=True):
        if one is not None and other is not None:
            assert other == pytest.approx(one + LATE_US, rel=0.01), "the bins are 0.8 % wide"
    assert leaders.latency.max_us is not None
    assert near.latency.max_us == leaders.latency.max_us + LATE_US
    assert near.latency.p99_interval_us is not None
    assert [row.latency.quantiles for row in calm.readers] == [leaders.latency.quantiles] * 2
    assert single.readers == (), "a single group is the cell's end-to-end latency"


def test_tables_and_page_show_them(analysed: Analysed) -> None:
    directory = analysed.directory
    rows = [
        row
        for row in csv.DictReader((directory / "results" / "readers.csv").open())
        if row["cell_id"] in ("late", "calm")
    ]
    assert [(row["cell_id"], row["reader"], row["settings"]) for row in rows] == [
        ("late", "leaders", ""), ("late", "near", "client.rack=b"),
        ("calm", "leaders", ""), ("calm", "near", "client.rack=b"),
    ]  # fmt: skip
    assert float(rows[1]["end_to_end_p50_us"]) > LATE_US
    page = (directory / "report.html").read_text()
    assert page.count("near <small>client.rack=b</small>") == 2


def test_without_a_late_reader_the_cell_says_nothing(analysed: Analysed) -> None:
    late, calm, single = (cell.verdict for cell in cells_of(analysed))
    assert late.result == "pass"
    assert (calm.result, single.result) == ("inconclusive", "inconclusive")
    assert any("so the fault did not reach one group of readers only" in reason for reason in calm.reasons)
    assert any("the run does not show it" in reason for reason in single.reasons)


def test_analysis_and_scenarios_have_one_word_for_it() -> None:
    read = criterion("a reader  late >= 250ms")
    assert (read.figure, read.limit) == (figure_checks.READER_LATE, 0.25)  # type: ignore[attr-defined]
