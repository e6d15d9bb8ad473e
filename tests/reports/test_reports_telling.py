"""Figures that say nothing are not drawn: throughput where every cell carried its rate, a surface of one point."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import pytest

from reports.figures import figures as figures_module
from reports.figures.figures import Figures, figures_of
from reports.figures.sweep import sweep_analysis
from reports.figures.sweep.figures import sweep_figures
from reports.judge.judged import Judged
from reports.read.cell import Run
from reports.read.model import CellFacts
from reports.render.chart_payload import charts_of, payload
from runlog.records.codec import from_document
from runlog.records.run import RunRecord
from tests.reports.sweep_facts import BASELINE, analysed, cell_facts, judged

RATES = {"5": 2_000.0, "0": 1_962.0, "50": 2_031.0}  # of 2,000 asked: what a run of a few seconds shows


def sweep(rates: dict[str, float], *, repetitions: int = 3) -> list[Judged]:
    cells: list[CellFacts] = []
    for repetition in range(1, repetitions + 1):
        for linger, rate in rates.items():
            own = cell_facts(
                {**BASELINE, "linger.ms": linger}, p99_us=9_000.0 + 40 * repetition + 100 * len(linger),
                throughput=rate + repetition, repetition=repetition, baseline=linger == "5",
            )  # fmt: skip
            cells.append(own)
    return judged(cells)


def figures(items: list[Judged]) -> Figures:
    cells = tuple(item.facts.cell for item in items)
    return figures_of(Run(directory="run", record=from_document(RunRecord, {}), cells=cells), items)


def test_throughput_that_every_cell_carried_is_not_drawn_and_the_page_says_why() -> None:
    own = figures(sweep(RATES))
    assert own.sweep is not None
    assert not own.throughput_tells
    assert set(own.sweep.effects) == set(own.sweep.surface) == {"p99", "broker_cpu", "wire_bytes"}
    drawn = charts_of(own)
    assert "price" not in drawn
    assert not [name for name in drawn if "throughput" in name]
    assert any(name.startswith("sweep-p99-") for name in drawn)
    assert any("throughput says nothing" in line for line in own.sweep.analysis.warnings)
    header, rows = own.sweep.tables["effects.csv"]
    assert "throughput" in {row[header.index("measure")] for row in rows}, "the tables keep it"


def test_throughput_is_drawn_as_soon_as_a_cell_fell_short() -> None:
    own = figures(sweep({**RATES, "50": 1_500.0}))
    assert own.sweep is not None
    assert own.throughput_tells
    assert {"throughput", "p99"} <= set(own.sweep.effects)
    assert charts_of(own)["price"].specification == "price"
    assert {point.rate for point in own.price.points} >= {1_500.0 + repetition for repetition in (1, 2)}
    assert {"price", "effects-throughput", "surface-throughput", "sweep-throughput-linger.ms"} <= set(charts_of(own))
    assert not any("throughput says nothing" in line for line in own.sweep.analysis.warnings)


def test_a_rate_that_all_carried_keeps_nobody_on_the_front() -> None:
    """linger.ms=50 is worse in p99 and like the others in the rest; 3 % more of the asked rate is no merit."""
    items = sweep({"5": 1_940.0, "50": 2_000.0})
    slow = [
        replace(item, facts=replace(item.facts, latency=cell_facts(BASELINE, p99_us=30_000).latency))
        if "linger.ms=50" in item.facts.cell.title
        else item
        for item in items
    ]
    share = {dict(point.configuration)["linger.ms"]: point.share_on_front for point in analysed(slow).points}
    assert share["50"] == 0.0
    assert share["5"] == 1.0


def test_one_point_is_no_surface() -> None:
    items = sweep({"5": 2_000.0, "50": 2_000.0})
    # The client was the limit of one of two: nothing of it may be used.
    busy = [
        cell_facts(
            {**BASELINE, "linger.ms": "50"}, p99_us=9e3, throughput=1_000, cpu_share=0.99, repetition=number
        )
        for number in (1, 2, 3)
    ]  # fmt: skip
    kept = [item for item in items if "linger.ms=5 " in f"{item.facts.cell.title} "]
    found = sweep_figures(analysed([*kept, *judged(busy)]))
    assert found.surface == {}


@pytest.mark.thorough
def test_the_scale_of_the_effects_is_that_of_what_is_drawn() -> None:
    own = figures(sweep(RATES))
    spec = payload(own, charts_of(own))["specs"]["effects"]
    [points] = [layer for layer in spec["layer"] if layer["mark"]["type"] == "point"]
    assert points["encoding"]["x"]["scale"]["domain"] == [own.effect_limits.low, own.effect_limits.high]


def test_each_statistic_of_a_sweep_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headline, recommendation, charts, tables and comparison all take the one analysis."""
    asked: list[str] = []

    def counted(module: ModuleType, name: str) -> None:
        own = getattr(module, name)

        def count(*arguments: object, **more: object) -> object:
            asked.append(f"{name} {arguments[1]}" if name == "cell_means" else name)
            return own(*arguments, **more)

        monkeypatch.setattr(module, name, count)

    for name in ("cell_means", "surface", "recommend", "sensitivities"):
        counted(sweep_analysis, name)
    counted(figures_module, "observe")
    figures(sweep(RATES))
    assert sorted(asked) == [
        *(f"cell_means {name}" for name in ("broker_cpu", "capacity", "p99", "throughput", "wire_bytes")),
        "observe", "recommend", "sensitivities", "surface",
    ]  # fmt: skip
