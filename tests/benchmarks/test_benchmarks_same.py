"""The A/A check counts what is said of equals, and does not hold when too much is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.claims import Claim
from benchmarks.same import Outcome, render
from benchmarks.same_claims import Quietness, of_comparisons, of_pages, of_sweeps, quietness_of, results_of
from benchmarks.same_runs import CHECKS, NEVER_ACTS, is_measured
from harness.plan import build_plan
from harness.scenarios import cases_of
from harness.suite import load_suite
from reports.figures.compare.compared import Compared, comparison_figures
from reports.figures.compare.comparison import compare, pair_up
from reports.figures.compare.likeness import Likeness
from reports.figures.figures import figures_of
from reports.figures.sweep.figures import sweep_figures
from reports.judge.judged import Judged
from reports.render.page import render as render_page
from reports.render.sweep_json import sweep_record
from runlog.records.codec import to_json
from tests.reports.cells import make_run
from tests.reports.comparison_trials import made_run
from tests.reports.sweep_facts import BASELINE, analysed, planted_sweep

EQUALS = [{**BASELINE, NEVER_ACTS: value} for value in ("100", "101", "102")]
CELLS = [*EQUALS, {**EQUALS[0], "linger.ms": "50"}]


def planted(level: dict[str, float], seed: int = 1) -> list[Judged]:
    """Four rounds whose p99 are 10 ms, times `level` by the value that never acts, with 3 % of noise; linger.ms=50 is
    three times as slow."""
    return planted_sweep(
        CELLS, lambda own: 10_000 * level.get(own[NEVER_ACTS], 1.0) * (3 if own["linger.ms"] == "50" else 1),
        repetitions=4, noise=0.03, seed=seed, baseline=CELLS[0],
    )  # fmt: skip


def swept(level: dict[str, float], seed: int = 1) -> dict[str, Any]:
    """sweep.json."""
    return to_json(sweep_record(sweep_figures(analysed(planted(level, seed))), analysis_id=""))


def page(level: dict[str, float]) -> str:
    items = planted(level)
    return render_page(figures_of(make_run("r", manifest={}, cells=tuple(one.facts.cell for one in items)), items))


def compared(change: float) -> dict[str, Any]:
    base, new = made_run(1, cells=4, repetitions=4), made_run(2, cells=4, repetitions=4, change=change)
    likeness = Likeness(unlike=(), differs=(), warnings=())
    return to_json(
        comparison_figures(Compared(
            base="one", new="two", comparison=compare(pair_up(base, new)), likeness=likeness, forced=False,
            only_base=(), only_new=(),
        )).record
    )  # fmt: skip


@pytest.mark.thorough
def test_equals_break_no_claim_and_what_differs_is_not_counted() -> None:
    claims = of_sweeps([swept({}, seed) for seed in range(1, 11)])
    effects, choices, against, _remarks = claims
    assert effects.total == 10 * 2 * 4, "two values that equal the baseline, four figures: linger.ms=50 is none of them"
    assert choices.total == 10
    assert against.total in range(0, 10 * 4 + 1, 4)
    assert all(claim.holds for claim in claims if claim.total), claims


@pytest.mark.thorough
def test_a_difference_that_is_named_is_counted_wherever_it_is_named() -> None:
    documents = [swept({"101": 0.5}, seed) for seed in range(1, 6)]
    effects, choices, against, _ = of_sweeps(documents)
    assert effects.count == 5
    assert choices.count == 5
    assert not choices.holds
    assert (against.count, against.total) == (5, 5 * 4)
    worse, better, figures = of_comparisons([compared(0.5)] * 4)
    assert (worse.count, better.count) == (4, 0)
    assert not worse.holds
    assert figures.count > 0
    assert results_of([compared(0.5), compared(0.0)])["worse"] == 1


@pytest.mark.thorough
def test_dots_of_the_front_page_are_read_from_the_page_itself() -> None:
    quiet, loud = of_pages([page({})]), of_pages([page({"101": 0.5, "102": 2.0})])
    assert (quiet.count, quiet.total) == (0, 2), "one dot for each value that equals the baseline: p99 alone differs"
    assert loud.count == 2


@pytest.mark.parametrize(
    ("sentence", "count"),
    [
        ("What would change it: if broker CPU counts most, retry.backoff.ms=102 takes -9 % (-12 to -5).", 1),
        ("What would change it: if capacity counts most, baseline carries +9 % (2 to 16).", 1),
        (
            "retry.backoff.ms=102 has the best p99 latency of this run, but this one takes less of the brokers: x",
            1,
        ),
        ("What would change it: if broker CPU counts most, linger.ms=50 takes -9 % (-12 to -5).", 0),
        ("What would change it: acks=1, which may lose records, bought no p99 that this run could see.", 0),
    ],
)
def test_remarks_are_counted_between_equals_alone(sentence: str, count: int) -> None:
    document = swept({})
    own = {**document["recommendation"], "settings": {"linger.ms": "5", NEVER_ACTS: "101"}, "sentences": [sentence]}
    assert of_sweeps([{**document, "recommendation": own}])[3].count == count


@pytest.mark.parametrize("name", [*CHECKS])
def test_the_configurations_of_a_check_differ_in_what_never_acts(name: str) -> None:
    check = CHECKS[name]
    plan = build_plan(load_suite(check.suite, check.overrides), cases_of, seed=1, client="reference")
    assert {cell.kind for cell in plan} == {"sweep", "ceiling"}
    values = {cell.properties[NEVER_ACTS] for cell in plan}
    assert {"100", "101", "102"} <= values
    others = [
        tuple(sorted((key, value) for key, value in cell.properties.items() if key != NEVER_ACTS))
        for cell in plan
        if cell.properties[NEVER_ACTS] != "100"
    ]
    base = next(cell for cell in plan if cell.baseline)
    assert set(others) == {tuple(sorted((k, v) for k, v in base.properties.items() if k != NEVER_ACTS))}


def test_a_run_that_was_ended_is_no_run(tmp_path: Path) -> None:
    assert not is_measured(tmp_path / "run-01")
    (tmp_path / "manifest.json").write_text('{"schema_version": 3, "status": "running"}')
    assert not is_measured(tmp_path)
    (tmp_path / "manifest.json").write_text('{"schema_version": 3, "status": "finished"}')
    assert is_measured(tmp_path)


def test_the_page_says_what_broke_and_how_busy_the_host_was() -> None:
    outcome = Outcome(
        check="equals", about="four equals", runs=5, cells=16, results={"worse": 3, "undecided": 7}, unlike=6,
        claims=(
            Claim(text="said", count=3, total=10, at_most=0.05), Claim(text="kept", count=0, total=10, at_most=0.05),
            Claim(text="none", count=0, total=0, at_most=0.05),
        ),
        hosts=(Quietness(run="run-01", foreign=0.31, stolen=None),),
    )  # fmt: skip
    shown = render({"command": "c", "date": "d", "load": "1 2 3", "commit": "abc"}, [outcome])
    assert "| said | 3 of 10 | 30.0% (6.7% to 65.2%) | at most 5% | **does not** |" in shown
    assert "| kept | 0 of 10 | 0.0% (0.0% to 30.8%) | at most 5% | holds |" in shown
    assert "| none | 0 of 0 | none was tried | at most 5% | too few to tell |" in shown
    assert "| run-01 | 31% of all cores | not recorded |" in shown
    assert "3 worse, 7 undecided. In 6 of them others took unlike parts of the host" in shown
    assert quietness_of("a", []).foreign is None
