"""Groups of readers beside each other: each has its own end-to-end latency, and a late one shows that a fault reached
it."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from chaos.criterion import READER_LATE, criterion
from reports.analyse.analysis import analyse
from reports.figures.figures import Figures, figures_of
from reports.judge import figure_checks
from reports.judge.judged import Judged
from reports.judge.verdict import judge
from reports.read.run_files import read_run
from reports.render.page import write_page
from reports.render.results import write_results
from tests.reports.synthetic_run import SyntheticCell, write_run

pytestmark = pytest.mark.spark
LATE_US = 300_000
READERS = [
    {"name": "leaders", "consumers": 2, "start_after_ms": None, "properties": {}},
    {"name": "near", "consumers": 1, "start_after_ms": None, "properties": {"client.rack": "b"}},
]


def cell(
    name: str, *, late_us: int = 0, readers: list[dict[str, object]] = READERS, limit_s: float = 0.25
) -> SyntheticCell:
    """The second reader gets every record `late_us` later than the first."""
    workload = {"rate_per_s": 1500, "record_size_bytes": 100, "producers": 2, "readers": readers}
    text = f"{READER_LATE} >= {round(limit_s * 1000)}ms"
    criteria = [{"text": text, "figure": READER_LATE, "limit": limit_s}]
    built = SyntheticCell(cell_id=name, document={"workload": workload, "criteria": criteria}).build()
    columns = built.columns["recv"]
    first = list(zip(*columns.values(), strict=True))
    for values in first:
        row = dict(zip(columns, values, strict=True))
        for column, value in {**row, "reader": 1, "consumer": 2, "polled_us": row["polled_us"] + late_us}.items():
            columns[column].append(value)
    return built


@pytest.fixture(scope="module")
def figures(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Figures, Path]:
    single = cell("single", readers=READERS[:1])
    directory = write_run(
        tmp_path_factory.mktemp("readers") / "run", [cell("late", late_us=LATE_US), cell("calm"), single]
    )
    run = read_run(directory)
    found = figures_of(run, [Judged(facts=item, verdict=judge(item)) for item in analyse(spark, run)])
    write_results(found, directory)
    write_page(found, directory)
    return found, directory


def test_each_group_has_its_own_latency(figures: tuple[Figures, Path]) -> None:
    late, calm, single = figures[0].cells
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


def test_tables_and_page_show_them(figures: tuple[Figures, Path]) -> None:
    _, directory = figures
    rows = list(csv.DictReader((directory / "results" / "readers.csv").open()))
    assert [(row["cell_id"], row["reader"], row["settings"]) for row in rows] == [
        ("late", "leaders", ""), ("late", "near", "client.rack=b"),
        ("calm", "leaders", ""), ("calm", "near", "client.rack=b"),
    ]  # fmt: skip
    assert float(rows[1]["end_to_end_p50_us"]) > LATE_US
    page = (directory / "report.html").read_text()
    assert page.count("near <small>client.rack=b</small>") == 2


def test_without_a_late_reader_the_cell_says_nothing(figures: tuple[Figures, Path]) -> None:
    late, calm, single = (cell.verdict for cell in figures[0].cells)
    assert late.result == "pass"
    assert (calm.result, single.result) == ("inconclusive", "inconclusive")
    assert any("so the fault did not reach one group of readers only" in reason for reason in calm.reasons)
    assert any("the run does not show it" in reason for reason in single.reasons)


def test_analysis_and_scenarios_have_one_word_for_it() -> None:
    read = criterion("a reader  late >= 250ms")
    assert (read.figure, read.limit) == (figure_checks.READER_LATE, 0.25)  # type: ignore[attr-defined]
