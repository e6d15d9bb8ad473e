"""Limits for several cells and for the run: what each outcome needs, and every place that tells them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from jsonschema import validate

from harness.run.report.reporting import print_verdicts
from reports.figures.figures import Figures, figures_of
from reports.job import _limits_of
from reports.judge.allowances import Allowance, Allowances
from reports.judge.judged import Judged
from reports.judge.limit_grammar import LimitError, parse_limit
from reports.judge.run_limits import RunLimit, run_limits
from reports.read.model import CellFacts
from reports.render.junit import junit
from reports.render.markdown import summary
from reports.render.page import render
from reports.render.results_schema import verdicts_schema
from reports.render.verdicts_json import verdicts_record
from runlog.records.codec import to_json
from runlog.records.run import RunLimitRecord
from runlog.records.search import Clause, ContractRecord, SearchEnd, SearchProbe, SearchRecord
from runlog.records.verdicts import LimitOutcome
from tests.reports.cells import changed, document_of, make_run
from tests.reports.test_reports_limits import STOLEN, ceiling, cell, held
from tests.reports.test_reports_verdict import comparison

HELD, BROKEN, UNDECIDED = LimitOutcome.HELD, LimitOutcome.BROKEN, LimitOutcome.UNDECIDED


def repeated(name: str, *p99_ms: float | None, baseline: bool = False, **how: Any) -> list[CellFacts]:
    """The repetitions of one configuration."""
    return [
        cell(
            cell_id=f"sweep-{name}-r{number}",
            p99_us=None if value is None else value * 1000,
            document={"repetition": number, "baseline": baseline},
            **how,
        )
        for number, value in enumerate(p99_ms, start=1)
    ]


def losing(cell_id: str, lost: int, **how: Any) -> CellFacts:
    sets = {"lost": comparison(only_observed=lost)}
    made = cell(cell_id=cell_id, sets=sets, expect={"lost": "any"}, **how)
    return replace(made, observed={"lost": sets["lost"].observed})


def limits(text: str, cells: Sequence[CellFacts], *patterns: str, search: SearchRecord | None = None) -> list[RunLimit]:
    return list(run_limits([RunLimitRecord(limit=text, cells=patterns)], held(*cells), search))


def outcomes(text: str, cells: Sequence[CellFacts], *patterns: str) -> dict[str, LimitOutcome]:
    return {one.subject: one.held.outcome for one in limits(text, cells, *patterns)}


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("median(p99_ms) <= 50", "median(p99_ms) <= 50"),
        (" max( p99_ms )<50", "max(p99_ms) < 50"),
        ("total_lost == 0", "total(lost) == 0"),
        ("mean (throughput) >= 0.9 * baseline", "mean(throughput) >= 0.9 * baseline"),
        ("found_rate_per_s >= 5_000", "found_rate_per_s >= 5000"),
    ],
)
def test_a_limit_of_several_cells_is_an_aggregate_of_a_figure(text: str, right: str) -> None:
    limit = parse_limit(text)
    assert limit.text == right
    assert not limit.is_of_cell
    assert parse_limit(limit.text) == limit


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("med(p99_ms) <= 50", "did you mean median(p99_ms)?"),
        ("p99(latency) <= 50", "expected one of median, mean, min, max, total"),
        ("median(p99) <= 50", "did you mean 'p99_ms'?"),
        ("total(p99_ms) <= 50", "only counts are added up"),
        ("total(lost) <= baseline", "no baseline to compare it with"),
        ("found_rate_per_s >= 0.9 * baseline", "no baseline to compare it with"),
        ("total_losst == 0", "is no figure"),
    ],
)
def test_what_is_no_limit_of_several_cells_is_told(text: str, told: str) -> None:
    with pytest.raises(LimitError) as error:
        parse_limit(text)
    assert told in str(error.value)


def test_the_repetitions_of_each_configuration_are_judged_together() -> None:
    cells = [*repeated("a", 30, 48, 90), *repeated("b", 60, 61, 62)]
    assert outcomes("median(p99_ms) <= 50", cells) == {"sweep-a": HELD, "sweep-b": BROKEN}
    assert outcomes("max(p99_ms) <= 62", cells) == {"sweep-a": BROKEN, "sweep-b": HELD}
    assert outcomes("min(p99_ms) >= 60", cells) == {"sweep-a": BROKEN, "sweep-b": HELD}
    assert outcomes("mean(p99_ms) <= 56", cells) == {"sweep-a": HELD, "sweep-b": BROKEN}
    assert outcomes("median(p99_ms) <= 50", cells, "sweep-a-*") == {"sweep-a": HELD}
    (first, _) = limits("median(p99_ms) <= 50", cells)
    assert first.held.reason == "limit median(p99_ms) <= 50: held, 48 ms over 3 cells (30, 48, 90)"
    assert (first.held.value, first.held.bound) == (48, 50)


def test_a_repetition_that_does_not_show_the_figure_never_lets_a_limit_be_held() -> None:
    assert outcomes("median(p99_ms) <= 50", repeated("a", 30, None, 31)) == {"sweep-a": UNDECIDED}
    assert outcomes("min(p99_ms) <= 50", repeated("a", 30, None)) == {"sweep-a": UNDECIDED}, (
        "though no value can break it"
    )
    assert outcomes("median(p99_ms) <= 50", repeated("a", 60, None)) == {"sweep-a": UNDECIDED}
    assert outcomes("max(p99_ms) <= 50", repeated("a", 60, None)) == {"sweep-a": BROKEN}, "whatever the other one was"
    assert outcomes("median(p99_ms) <= 50", repeated("a", 60, None, 61)) == {"sweep-a": BROKEN}
    unread = [*repeated("a", 30), *repeated("a", 30, 31, complete=False)[1:]]
    assert outcomes("median(p99_ms) <= 50", unread) == {"sweep-a": UNDECIDED}
    (one,) = limits("median(p99_ms) <= 50", unread)
    assert "sweep-a-r2: the cell is inconclusive: " in one.held.reason
    assert one.held.value is None


def test_a_p99_without_an_end_breaks_a_limit() -> None:
    cells = [*repeated("a", 30), *repeated("a", 30, None, unanswered=200)[1:]]
    assert outcomes("max(p99_ms) <= 50", cells) == {"sweep-a": BROKEN}
    (one,) = limits("max(p99_ms) <= 50", cells)
    assert one.held.value is None
    assert "not reached" in one.held.reason


def test_a_disturbed_repetition_may_hold_a_limit_and_not_break_one() -> None:
    stolen = repeated("a", 40, 45, 60, stats=STOLEN)
    assert outcomes("median(p99_ms) <= 50", stolen) == {"sweep-a": HELD}, "without the others it was shorter still"
    assert outcomes("max(p99_ms) <= 50", stolen) == {"sweep-a": UNDECIDED}
    assert outcomes("min(p99_ms) >= 30", stolen) == {"sweep-a": UNDECIDED}


def test_a_limit_of_the_run_adds_up_all_its_cells() -> None:
    clean = [losing("a", 0), losing("b", 0)]
    assert outcomes("total(lost) == 0", clean) == {"run": HELD}
    assert outcomes("total_lost == 0", [*clean, losing("c", 3)]) == {"run": BROKEN}
    assert outcomes("total(lost) <= 3", [*clean, losing("c", 3)]) == {"run": HELD}
    assert outcomes("total(lost) == 0", [*clean, losing("c", 3)], "a", "b") == {"run": HELD}
    unread = losing("d", 0, complete=False)
    assert outcomes("total(lost) == 0", [*clean, unread]) == {"run": UNDECIDED}, "what it lost is not known"
    assert outcomes("total(lost) <= 1000", [*clean, unread]) == {"run": UNDECIDED}
    assert outcomes("total(lost) == 0", [losing("c", 3), unread]) == {"run": BROKEN}, "3 are lost already"
    assert outcomes("total(lost) == 0", []) == {"run": UNDECIDED}, "nothing was measured"
    assert outcomes("total(lost) == 0", [*clean, cell(cell_id="search-probe-1", complete=False)]) == {"run": HELD}


def test_a_limit_against_the_baseline_takes_the_same_of_its_repetitions() -> None:
    base, slow, fast = repeated("base", 40, 50, 60, baseline=True), repeated("a", 70, 76), repeated("b", 70, 74)
    text = "median(p99_ms) <= 1.45 * baseline"
    assert outcomes(text, [*base, *slow, *fast]) == {"sweep-a": BROKEN, "sweep-b": HELD}
    assert limits(text, [*base, *slow])[0].held.bound == 72.5
    assert outcomes(text, [*base[:2], *repeated("base", 1, 1, None, baseline=True)[2:], *fast]) == {
        "sweep-b": UNDECIDED
    }
    assert outcomes(text, base) == {"run": UNDECIDED}, "there is no other configuration"
    assert outcomes(text, fast) == {"sweep-b": UNDECIDED}, "there is no baseline"


def searched(**how: Any) -> SearchRecord:
    probe = SearchProbe(
        cell_id="p", rate_per_s=1, passed=True, broken=(), reasons=(), p99_ms=1, acked_per_s=1,
        backlog_growth_share=0, kept_per_s=1, estimate_per_s=1, low_per_s=1, high_per_s=1,
    )  # fmt: skip
    made = SearchRecord(
        schema_version=2, contract=ContractRecord(p99_ms=50), searched_per_s=(500, 9_000), rate_per_s=4_400,
        half_per_s=5_000, low_per_s=4_700, high_per_s=5_300, ended_at=SearchEnd.NONE, limited_by=(Clause.LATENCY,),
        limit_reasons=(), probes=(probe,), load_curve=(),
    )  # fmt: skip
    return replace(made, **how)


@pytest.mark.parametrize(
    ("bound", "how", "expected"),
    [
        (4_400, {}, HELD),
        (4_500, {}, UNDECIDED),
        (5_000, {}, UNDECIDED),
        (5_400, {}, BROKEN),
        (5_400, {"ended_at": SearchEnd.HIGH}, UNDECIDED),
        (4_400, {"ended_at": SearchEnd.HIGH}, HELD),
        (5_400, {"limited_by": (Clause.GENERATOR,)}, UNDECIDED),
        (400, {"ended_at": SearchEnd.LOW}, UNDECIDED),
        (5_400, {"ended_at": SearchEnd.LOW}, BROKEN),
        (400, {"probes": ()}, UNDECIDED),
        (400, {"rate_per_s": None}, UNDECIDED),
        (5_400, {"rate_per_s": None}, BROKEN),
    ],
)
def test_a_bound_is_held_by_the_rate_that_is_kept_and_broken_above_the_interval_of_the_limit(
    bound: int, how: Any, expected: LimitOutcome
) -> None:
    (one,) = limits(f"found_rate_per_s >= {bound}", [], search=searched(**how))
    assert (one.subject, one.held.outcome) == ("run", expected)


def test_without_a_search_its_rate_is_undecided() -> None:
    (one,) = limits("found_rate_per_s >= 1", [])
    assert one.held.outcome is UNDECIDED


def all_figures(*texts: str, allow: Sequence[Allowance] = ()) -> Figures:
    items: list[Judged] = held(*repeated("a", 30, 48, 90))
    run = make_run("r", manifest={"run_id": "r"}, cells=tuple(item.facts.cell for item in items))
    run = replace(run, record=replace(run.record, limits=tuple(RunLimitRecord(limit=text) for text in texts)))
    return figures_of(run, items, _limits_of(run, items, Allowances(allow, today=date(2026, 1, 1))))


@pytest.mark.parametrize(
    ("text", "verdict", "code", "tag"),
    [
        ("median(p99_ms) <= 50", "pass", 0, None),
        ("max(p99_ms) <= 50", "fail", 1, "failure"),
        ("max(elect_ms) <= 1", "inconclusive", 4, "error"),
    ],
)
def test_it_stands_wherever_the_verdict_does(
    text: str, verdict: str, code: int, tag: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = all_figures(text)
    assert (figures.run.verdict, figures.run.exit_code, figures.overview.head.result) == (verdict, code, verdict)
    suite = ElementTree.fromstring(junit(figures))[0]
    assert (suite.get("name"), suite.get("tests")) == ("limits of the run", "1")
    (case,) = suite
    assert (case.get("classname"), case.get("name")) == ("sweep-a", f"limit {text}")
    assert [child.tag for child in case] == ([tag] if tag else [])
    document = to_json(verdicts_record(figures))
    validate(document["limits"], verdicts_schema()["properties"]["limits"])
    assert (document["exit_code"], document["limits"][0]["result"]) == (code, verdict)
    told = summary(figures)
    assert f"| {text.replace('<', '&lt;')} |" in told
    assert told.startswith(f"# {verdict}: ")
    assert ("- sweep-a: limit" in told) is (tag is not None)
    assert figures.run.limits[0].check.reason.replace("<", "&lt;") in render(figures)
    print_verdicts(verdicts_record(figures), Path("/r/report.html"))
    out = capsys.readouterr().out
    assert f"limit {text}: held {int(code == 0)}, broken {int(code == 1)}, undecided {int(code == 4)}" in out
    assert ("sweep-a: limit" in out) is (tag is not None)
    assert f"verdict: {verdict}" in out


def test_a_broken_limit_of_the_run_may_be_allowed_for_now() -> None:
    entry = Allowance(cell="sweep-a", invariant="limit max(p99_ms)*", because="T-1", until=date(2026, 2, 1))
    figures = all_figures("max(p99_ms) <= 50", allow=[entry])
    assert figures.run.exit_code == 0
    assert [child.tag for child in ElementTree.fromstring(junit(figures))[0][0]] == ["skipped"]
    assert to_json(verdicts_record(figures))["limits"][0]["outcome"] == "broken"


def test_a_text_of_another_version_is_undecided() -> None:
    (one,) = limits("mode(p99_ms) <= 50", repeated("a", 1))
    assert one.held.outcome is UNDECIDED
    assert math.isfinite(one.held.value or 0)


def at_ceiling(name: str, *per_s: float, baseline: bool = False, cpu_share: float = 0.5) -> list[CellFacts]:
    """The ceilings of one configuration."""
    return [
        ceiling(
            cell_id=f"ceiling-{name}-r{number}", throughput=value, cpu_share=cpu_share,
            document={"repetition": number, "baseline": baseline},
        )
        for number, value in enumerate(per_s, start=1)
    ]  # fmt: skip


def test_repetitions_at_the_ceiling_are_compared_with_those_of_the_baseline() -> None:
    rates = [*repeated("baseline", 30, 31, baseline=True), *repeated("a", 30, 31)]
    cells = [*rates, *at_ceiling("baseline", 20_000, 21_000, baseline=True), *at_ceiling("a", 17_000, 18_000)]
    text = "mean(throughput) >= 0.9 * baseline"
    assert outcomes(text, cells) == {"ceiling-a": BROKEN}
    assert limits(text, cells)[0].held.bound == 18_450
    assert outcomes(text, rates) == {"sweep-a": HELD}, "a sweep without ceilings has its rate alone"
    assert outcomes(text, cells, "sweep-*") == {"sweep-a": HELD}
    assert outcomes("max(capacity) >= 18_000", cells) == {"ceiling-baseline": HELD, "ceiling-a": HELD}
    limited = [*rates, *at_ceiling("baseline", 20_000, 21_000, baseline=True, cpu_share=0.95), *at_ceiling("a", 17_000)]
    assert outcomes(text, limited) == {"ceiling-a": UNDECIDED}


def test_a_ceiling_that_left_nothing_leaves_its_configuration_undecided() -> None:
    gone = cell(cell_id="ceiling-a-r3", kind="sweep")
    absent = {**document_of(gone.cell), "repetition": None, "outcome": {"status": "absent", "reason": "no directory"}}
    cells = [*at_ceiling("a", 17_000, 18_000), replace(gone, cell=changed(gone.cell, document=absent))]
    assert outcomes("median(capacity) >= 15_000", cells) == {"ceiling-a": UNDECIDED}


def test_a_planned_cell_that_left_nothing_leaves_its_configuration_undecided() -> None:
    gone = cell(cell_id="sweep-a-r3", p99_us=None)
    absent = {**document_of(gone.cell), "repetition": None, "outcome": {"status": "absent", "reason": "no directory"}}
    cells = [*repeated("a", 30, 31), replace(gone, cell=changed(gone.cell, document=absent))]
    assert outcomes("median(p99_ms) <= 50", cells) == {"sweep-a": UNDECIDED}
