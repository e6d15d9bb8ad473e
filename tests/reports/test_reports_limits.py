"""Limits: the grammar, what each outcome needs, and that every place that tells a verdict tells the limits too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from reports.figures.figures import Figures, figures_of
from reports.judge.cell_values import figures_of_cell
from reports.judge.judged import Judged, exit_code
from reports.judge.limit_figures import FIGURES
from reports.judge.limit_grammar import LimitError, parse_limit
from reports.judge.limit_page import page
from reports.judge.limits import with_limits
from reports.judge.verdict import judge
from reports.read.model import CellFacts, Latency, Recovery
from reports.render.junit import junit
from reports.render.markdown import summary
from reports.render.page import render
from reports.render.verdicts_json import verdicts_record
from runlog.records.codec import to_json
from runlog.records.verdicts import LimitOutcome
from tests.reports.cells import changed, document_of, make_run
from tests.reports.test_reports_verdict import comparison, facts

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "limits.md"
STOLEN = ({"t_us": 1_000, "source": "host", "name": "resources", "values": {"foreign_share": 0.4, "steal_share": 0.0}},)


def cell(
    *limits: str,
    cell_id: str = "c",
    p99_us: float | None = 48_000,
    unanswered: int = 0,
    document: Mapping[str, Any] | None = None,
    stats: tuple[dict[str, Any], ...] = (),
    **how: Any,
) -> CellFacts:
    made = facts(**{"kind": "sweep", **how})
    latency = Latency(n=10_000, unanswered=unanswered, quantiles={"p99": p99_us})
    whole = {**document_of(made.cell), "limits": list(limits), "repetition": 1, **(document or {})}
    own = changed(made.cell, cell_id=cell_id, document=whole, stats=stats)
    return replace(made, cell=own, latency={**made.latency, "corrected": latency})


def held(*cells: CellFacts) -> list[Judged]:
    return with_limits([Judged(facts=one, verdict=judge(one)) for one in cells])


def outcomes(*cells: CellFacts) -> list[LimitOutcome]:
    """Of the last cell."""
    return [one.outcome for one in held(*cells)[-1].verdict.limits]


def baseline(**how: Any) -> CellFacts:
    return cell(cell_id="baseline", document={"baseline": True}, **how)


@pytest.mark.parametrize(
    ("text", "right", "bound", "is_relative"),
    [
        ("p99_ms <= 50", "p99_ms <= 50", 50, False),
        ("  lost==0 ", "lost == 0", 0, False),
        ("throughput >= 0.9 * baseline", "throughput >= 0.9 * baseline", 0.9, True),
        ("p99_ms <= baseline*1.5", "p99_ms <= 1.5 * baseline", 1.5, True),
        ("duplicated <= baseline", "duplicated <= baseline", 1, True),
        ("throughput_per_s > 5_000", "throughput_per_s > 5000", 5000, False),
        ("gap_ms < 1.5e3", "gap_ms < 1500", 1500, False),
    ],
)
def test_a_limit_is_a_figure_a_comparison_and_a_bound(text: str, right: str, bound: float, is_relative: bool) -> None:
    limit = parse_limit(text)
    assert (limit.text, limit.bound, limit.is_relative) == (right, bound, is_relative)
    assert parse_limit(limit.text) == limit


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("p99 <= 50", "p99 is no figure; did you mean 'p99_ms'?"),
        ("latency <= 50", "latency is no figure; docs/reference/limits.md has all of them"),
        ("los == 0", "did you mean 'lost'?"),
        ("lost = 0", "compares with ==, not with ="),
        ("p99_ms <= 50ms", "'50ms': expected a number, in ms: the unit stands in the figure's name"),
        ("throughput >= 0.9 * base", "'0.9 * base' is no bound"),
        ("throughput >= basline", "did you mean 'baseline'?"),
        ("p99_ms <= 2 * 3", "is no bound"),
        ("p99_ms <= baseline * baseline", "is no bound"),
        ("p99_ms <= nan", "expected a number"),
        ("p99_ms <= 1e999", "no finite number"),
        ("p99_ms", "expected FIGURE <= NUMBER"),
        ("", "expected FIGURE <= NUMBER"),
        ("x" * 300, "at most 200 characters"),
    ],
)
def test_what_is_no_limit_is_told_with_the_nearest_right_thing(text: str, told: str) -> None:
    with pytest.raises(LimitError) as error:
        parse_limit(text)
    assert told in str(error.value)


def test_every_figure_that_can_be_named_can_be_read_and_stands_on_the_page() -> None:
    read = figures_of_cell(replace(cell(), recovery=Recovery(fault="kill", fault_us=0)))
    assert set(read) == set(FIGURES)
    assert PAGE.read_text() == page(), "python -m reports.judge.limit_page > docs/reference/limits.md"


@pytest.mark.parametrize(
    ("limit", "expected", "code"),
    [
        ("p99_ms <= 50", LimitOutcome.HELD, 0),
        ("p99_ms <= 47", LimitOutcome.BROKEN, 1),
        ("elect_ms <= 1", LimitOutcome.UNDECIDED, 4),
    ],
)
def test_a_limit_is_held_broken_or_undecided_and_decides_the_exit_code(
    limit: str, expected: LimitOutcome, code: int
) -> None:
    judged = held(cell(limit))
    assert [one.outcome for one in judged[0].verdict.limits] == [expected]
    assert exit_code(judged) == code


def test_a_cell_that_is_inconclusive_decides_no_limit() -> None:
    assert outcomes(cell("p99_ms <= 50", "lost == 0", complete=False)) == [
        LimitOutcome.UNDECIDED,
        LimitOutcome.UNDECIDED,
    ]


def test_what_cannot_be_told_is_no_pass() -> None:
    (unread,) = held(cell("lost == 0", complete=False))
    assert [one.outcome for one in unread.verdict.limits] == [LimitOutcome.UNDECIDED]
    assert outcomes(cell("p99_ms <= 50", p99_us=None)) == [LimitOutcome.UNDECIDED], "too few samples"
    assert outcomes(cell("p99_ms <= 50", p99_us=None, unanswered=200)) == [LimitOutcome.BROKEN], (
        "more than 1 % has no end"
    )
    assert figures_of_cell(cell(p99_us=None, unanswered=200))["p99_ms"] == math.inf


def test_a_limit_that_a_disturbed_host_may_have_broken_is_undecided() -> None:
    assert outcomes(cell("p99_ms <= 50", stats=STOLEN)) == [LimitOutcome.HELD], "it held in spite of it"
    assert outcomes(cell("p99_ms <= 47", stats=STOLEN)) == [LimitOutcome.UNDECIDED]
    assert outcomes(cell("p99_ms >= 40", stats=STOLEN)) == [LimitOutcome.UNDECIDED], "the host may be why it is so long"
    assert outcomes(cell("throughput >= 900", stats=STOLEN)) == [LimitOutcome.HELD]
    some = {"duplicated": comparison(only_observed=3)}
    limits = cell("duplicated == 0", stats=STOLEN, sets=some, expect={"duplicated": "any"})
    assert outcomes(replace(limits, observed={"duplicated": some["duplicated"].observed})) == [LimitOutcome.BROKEN]


def test_a_limit_against_the_baseline_takes_that_of_the_same_repetition() -> None:
    first, second = baseline(throughput=1000.0), baseline(throughput=2000.0)
    second = replace(second, cell=changed(second.cell, document={**document_of(second.cell), "repetition": 2}))
    wanted = "throughput >= 0.9 * baseline"
    slower = cell(wanted, throughput=1200.0)
    assert outcomes(first, second, slower) == [LimitOutcome.HELD]
    other = replace(slower, cell=changed(slower.cell, document={**document_of(slower.cell), "repetition": 2}))
    assert outcomes(first, second, other) == [LimitOutcome.BROKEN]
    assert held(first, second, other)[-1].verdict.limits[0].bound == 1800
    assert outcomes(first, other) == [LimitOutcome.UNDECIDED], "its baseline is not in the run"
    assert outcomes(baseline(throughput=1000.0, complete=False), slower) == [LimitOutcome.UNDECIDED]
    assert outcomes(baseline(throughput=1000.0, stats=STOLEN), slower) == [LimitOutcome.UNDECIDED]


def ceiling(*limits: str, cpu_share: float = 0.5, **how: Any) -> CellFacts:
    """`cpu_share`: of the load generator."""
    made = cell(*limits, kind="ceiling", cpu_share=cpu_share, **how)
    return replace(made, counts=replace(made.counts, acks_in_window=10_000))


def test_a_ceiling_is_held_against_the_ceiling_of_the_baseline() -> None:
    at_rate, own = baseline(throughput=1000.0), ceiling(cell_id="b", document={"baseline": True}, throughput=20_000.0)
    wanted = "throughput >= 0.9 * baseline"
    assert outcomes(at_rate, own, ceiling(wanted, throughput=19_000.0)) == [LimitOutcome.HELD]
    assert outcomes(at_rate, own, ceiling(wanted, throughput=17_000.0)) == [LimitOutcome.BROKEN]
    assert held(at_rate, own, ceiling(wanted, throughput=17_000.0))[-1].verdict.limits[0].bound == 18_000
    assert outcomes(ceiling("capacity >= 15_000", throughput=17_000.0)) == [LimitOutcome.HELD]
    assert outcomes(ceiling("capacity >= 15_000", throughput=14_000.0)) == [LimitOutcome.BROKEN]


def test_a_ceiling_of_the_load_generator_breaks_no_limit_and_is_nothing_to_compare_with() -> None:
    full = 0.95
    assert outcomes(ceiling("capacity >= 15_000", throughput=14_000.0, cpu_share=full)) == [LimitOutcome.UNDECIDED]
    assert outcomes(ceiling("capacity >= 15_000", throughput=17_000.0, cpu_share=full)) == [LimitOutcome.HELD]
    limited = ceiling(cell_id="b", document={"baseline": True}, throughput=20_000.0, cpu_share=full)
    last = held(limited, ceiling("throughput >= 0.9 * baseline", throughput=19_000.0))[-1].verdict.limits[0]
    assert last.outcome is LimitOutcome.UNDECIDED
    assert "the baseline's cell: the load generator was the limit: no capacity is claimed" in last.reason


def test_a_limit_of_a_ceiling_stands_in_junit_and_in_the_summary() -> None:
    judged = held(
        ceiling(cell_id="ceiling-baseline-r1", document={"baseline": True}, throughput=20_000.0),
        ceiling("throughput >= 0.9 * baseline", cell_id="ceiling-x-r1", throughput=17_000.0),
    )
    figures = figures_of(make_run("r", manifest={"run_id": "r"}, cells=tuple(one.facts.cell for one in judged)), judged)
    suites = {one.get("name"): one for one in ElementTree.fromstring(junit(figures))}
    (own,) = [suite for name, suite in suites.items() if "ceiling-x-r1" in ElementTree.tostring(suite, "unicode")]
    cases = {case.get("name"): [child.tag for child in case] for case in own}
    assert cases["limit throughput >= 0.9 * baseline"] == ["failure"]
    text = summary(figures)
    assert "| throughput &gt;= 0.9 \\* baseline | 0 | 1 | 0 |" in text
    assert "ceiling-x-r1" in text


def test_a_text_of_another_version_is_undecided_and_says_so() -> None:
    (item,) = held(cell("p99_parsecs <= 50"))
    assert item.verdict.limits[0].outcome is LimitOutcome.UNDECIDED
    assert "p99_parsecs is no figure" in item.verdict.limits[0].reason


def all_figures() -> Figures:
    judged = held(cell("p99_ms <= 50", "p99_ms <= 40", "elect_ms <= 1"), cell("p99_ms <= 50", cell_id="d"))
    return figures_of(make_run("r", manifest={"run_id": "r"}, cells=tuple(item.facts.cell for item in judged)), judged)


@pytest.mark.thorough
def test_limits_stand_wherever_the_verdict_does() -> None:
    figures = all_figures()
    text = summary(figures)
    assert "## Limits\n\n| limit | held | broken | undecided |\n" in text
    assert "| p99_ms &lt;= 50 | 2 | 0 | 0 |" in text
    assert "| p99_ms &lt;= 40 | 0 | 1 | 0 |" in text
    suites = ElementTree.fromstring(junit(figures))
    cases = {case.get("name"): [child.tag for child in case] for case in suites[0]}
    assert cases["limit p99_ms <= 50"] == []
    assert cases["limit p99_ms <= 40"] == ["failure"]
    assert cases["limit elect_ms <= 1"] == ["error"]
    document = to_json(verdicts_record(figures))
    assert [one["outcome"] for one in document["cells"][0]["limits"]] == ["held", "broken", "undecided"]
    assert document["reading"]["limits"][0] == {"limit": "p99_ms <= 50", "held": 2, "broken": 0, "undecided": 0}
    assert document["exit_code"] == 1
    shown = render(figures)
    assert "<code>p99_ms &lt;= 40</code>" in shown
    assert ">broken</span>" in shown
