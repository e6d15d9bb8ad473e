"""The A/A check counts what is said of equals, and does not hold when too much is said."""

from __future__ import annotations

from typing import Any

from benchmarks.claims import Claim
from benchmarks.same import SUITE, render
from benchmarks.same_claims import Quietness, of_comparisons, of_sweeps, quietness_of, results_of
from harness.plan import build_plan
from harness.suite import load_suite
from reports.figures.compare.compared import Compared, comparison_figures
from reports.figures.compare.comparison import compare, pair_up
from reports.figures.compare.likeness import Likeness
from reports.figures.sweep.figures import sweep_figures
from reports.render.sweep_json import sweep_record
from runlog.records.codec import to_json
from tests.reports.comparison_trials import made_run
from tests.reports.sweep_facts import BASELINE, analysed, planted_sweep

CELLS = [{**BASELINE, "linger.ms": value} for value in ("5", "6", "7", "8")]


def swept(level: dict[str, float], seed: int = 1) -> dict[str, Any]:
    """sweep.json of four rounds whose p99 are these levels, with 3 % of noise."""
    found = analysed(
        planted_sweep(
            CELLS, lambda own: level.get(own["linger.ms"], 10_000.0), repetitions=4, noise=0.03, seed=seed,
            baseline=CELLS[0],
        )
    )  # fmt: skip
    return to_json(sweep_record(sweep_figures(found), analysis_id=""))


def compared(change: float) -> dict[str, Any]:
    base, new = made_run(1, cells=4, repetitions=4), made_run(2, cells=4, repetitions=4, change=change)
    likeness = Likeness(unlike=(), differs=(), warnings=())
    return to_json(
        comparison_figures(Compared(
            base="one", new="two", comparison=compare(pair_up(base, new)), likeness=likeness, forced=False,
            only_base=(), only_new=(),
        )).record
    )  # fmt: skip


def test_equals_break_no_claim() -> None:
    claims = of_sweeps([swept({}, seed) for seed in range(1, 6)])
    assert [claim.total for claim in claims] == [5 * 3 * 4, 5, 15]
    assert all(claim.holds for claim in claims), claims


def test_a_difference_that_is_named_is_counted_wherever_it_is_named() -> None:
    arrows, choices, _ = of_sweeps([swept({"5": 5_000.0}, seed) for seed in range(1, 6)])
    assert arrows.count == 15
    assert choices.count == 5
    assert not choices.holds
    worse, better, figures = of_comparisons([compared(0.5)] * 4)
    assert (worse.count, better.count) == (4, 0)
    assert not worse.holds
    assert figures.count > 0
    assert results_of([compared(0.5), compared(0.0)])["worse"] == 1


def test_the_cells_of_the_suite_differ_in_what_never_acts() -> None:
    plan = build_plan(load_suite(str(SUITE)), lambda name: (), seed=1, client="reference")
    assert len(plan) == 16
    assert {cell.properties["retry.backoff.ms"] for cell in plan} == {"100", "101", "102", "103"}
    others = [{name: value for name, value in cell.properties.items() if name != "retry.backoff.ms"} for cell in plan]
    assert all(one == others[0] for one in others)


def test_the_page_says_what_broke_and_how_busy_the_host_was() -> None:
    claims = [Claim(text="said", count=3, total=10, at_most=0.05), Claim(text="kept", count=0, total=10, at_most=0.05)]
    document = {
        "command": "c", "date": "d", "runs": 5, "suite": "same", "cells": 16, "load": "1 2 3", "commit": "abc",
        "results": {"worse": 3, "undecided": 7},
    }  # fmt: skip
    page = render(document, claims, [Quietness(run="run-01", foreign=0.31, stolen=None)])
    assert "| said | 3 of 10 | at most 5% | **does not** |" in page
    assert "| kept | 0 of 10 | at most 5% | holds |" in page
    assert "| run-01 | 31% of all cores | not recorded |" in page
    assert quietness_of("a", []).foreign is None
