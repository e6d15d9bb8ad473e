"""Limits that a suite sets for figures of its cells: held, broken or undecided, each with its reason. Pure.

If a figure is not known, or if its cell is inconclusive, the limit is undecided and never a pass. The same holds if
the clocks of two hosts leave it open (`cell_values.py`). If others disturbed the host, a limit that is still met counts
as held. A limit that is not met is undecided there, because the host may be the cause.
Shown by tests/reports/test_reports_limits.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from reports.judge.cell_values import Span, is_certain, span_of
from reports.judge.checks import FAIL, INCONCLUSIVE, PASS, Check, worst
from reports.judge.figure import Better
from reports.judge.figure_checks import ceiling_limit
from reports.judge.judged import Judged
from reports.judge.limit_figures import CAPACITY, THROUGHPUT, LimitFigure
from reports.judge.limit_grammar import Limit, LimitError, parse_limit
from reports.judge.noise import disturbance
from reports.read.model import CellFacts
from runlog.records.cell import CellKind
from runlog.records.verdicts import LimitOutcome, LimitRecord, Result

CHECK_PREFIX: Final = "limit "
RESULTS: Final[Mapping[LimitOutcome, Result]] = {
    LimitOutcome.HELD: PASS,
    LimitOutcome.BROKEN: FAIL,
    LimitOutcome.UNDECIDED: INCONCLUSIVE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Baseline:
    """What a relative limit is compared with, or why that is impossible."""

    facts: CellFacts | None
    why_not: str = ""
    span: Span | None = None  # The limit's figure in the baseline's cell.


def with_limits(judged: Sequence[Judged]) -> list[Judged]:
    """The same cells; each limit of a cell is a check of its verdict, and told there with its figures."""
    return [_with_own(item, judged) for item in judged]


def _with_own(item: Judged, judged: Sequence[Judged]) -> Judged:
    texts = item.facts.cell.record.limits
    if not texts:
        return item
    held = tuple(_held(text, item, judged) for text in texts)
    checks = [*item.verdict.checks, *(_check(one) for one in held)]
    result = worst([check.result for check in checks])
    return replace(item, verdict=replace(item.verdict, result=result, checks=tuple(checks), limits=held))


def _check(one: LimitRecord) -> Check:
    return Check(name=f"{CHECK_PREFIX}{one.limit}", result=RESULTS[one.outcome], reason=one.reason)


def _held(text: str, item: Judged, judged: Sequence[Judged]) -> LimitRecord:
    try:
        limit = parse_limit(text)
    except LimitError as error:  # written by another version, or by hand
        return LimitRecord(
            limit=text,
            figure="",
            value=None,
            bound=None,
            outcome=LimitOutcome.UNDECIDED,
            reason=f"{CHECK_PREFIX}{text}: {error}",
        )
    span = span_of(item.facts, limit.figure.name)
    baseline = _baseline_of(item, judged, limit.figure) if limit.is_relative else None
    bound = limit.bound
    if baseline is not None:
        bound = math.nan if baseline.span is None or baseline.span.value is None else bound * baseline.span.value
    outcome, why = _outcome(limit, span, item, baseline)
    return LimitRecord(
        limit=limit.text,
        figure=limit.figure.name,
        value=finite(span.value) if span else None,
        bound=finite(bound),
        outcome=outcome,
        reason=_reason(limit, span, bound, outcome, why),
        clock_error=span.finite_error if span else None,
    )


def _outcome(limit: Limit, span: Span | None, item: Judged, baseline: _Baseline | None) -> tuple[LimitOutcome, str]:
    """The outcome, and why it is undecided."""
    if why := why_inconclusive(item):
        return LimitOutcome.UNDECIDED, f"the cell is inconclusive: {why}"
    if span is None:
        return LimitOutcome.UNDECIDED, "the run does not show this figure"
    low, high, of_baseline = limit.bound, limit.bound, None
    if baseline is not None:
        of_baseline = baseline.span
        if baseline.facts is None:
            return LimitOutcome.UNDECIDED, baseline.why_not
        if of_baseline is None or of_baseline.value == math.inf:
            return LimitOutcome.UNDECIDED, "the baseline's cell does not show this figure"
        low, high = sorted((limit.bound * of_baseline.low, limit.bound * of_baseline.high))
    is_held = is_certain(limit.comparison, span.low, span.high, low, high)
    if is_held is None:
        open_there = of_baseline.why_open() if of_baseline is not None else ""
        whys = [span.why_open(), f"the baseline's cell: {open_there}" if open_there else ""]
        return LimitOutcome.UNDECIDED, "; ".join(filter(None, whys))
    if limit.figure.better is not Better.NEITHER:
        if baseline is not None and baseline.facts is not None and (noise := doubt(baseline.facts, limit.figure)):
            return LimitOutcome.UNDECIDED, f"the baseline's cell: {noise}"
        noise = doubt(item.facts, limit.figure)
        if noise and not (is_held and _is_held_against_noise(limit)):
            return LimitOutcome.UNDECIDED, noise
    return (LimitOutcome.HELD if is_held else LimitOutcome.BROKEN), ""


def why_inconclusive(item: Judged) -> str:
    """The first thing that the cell could not show, else empty. Limits are not among it."""
    checks = (check for check in item.verdict.checks if not check.name.startswith(CHECK_PREFIX))
    return next((check.reason for check in checks if check.result == INCONCLUSIVE), "")


def doubt(facts: CellFacts, figure: LimitFigure) -> str:
    """Why a figure that has a direction may be worse than what the configuration gives, else empty. The load generator
    can only take from a capacity, as others on the host do."""
    is_capacity = figure.name in (THROUGHPUT, CAPACITY) and facts.cell.kind is CellKind.CEILING
    return (ceiling_limit(facts) if is_capacity else "") or disturbance(facts)


def _is_held_against_noise(limit: Limit) -> bool:
    """Others on the host only make a figure worse. If a bound on its bad side holds, it would hold without them too."""
    return (limit.figure.better is Better.LOW and limit.comparison in ("<", "<=")) or (
        limit.figure.better is Better.HIGH and limit.comparison in (">", ">=")
    )


def _baseline_of(item: Judged, judged: Sequence[Judged], figure: LimitFigure) -> _Baseline:
    """The baseline's cell of the same repetition: one round's cells are next to each other in time."""
    own = item.facts.cell.record
    number = own.repetition or 1
    for other in judged:
        record = other.facts.cell.record
        if record.baseline and record.kind == own.kind and (record.repetition or 1) == number:
            if why := why_inconclusive(other):
                return _Baseline(facts=None, why_not=f"the baseline's cell is inconclusive: {why}")
            return _Baseline(facts=other.facts, span=span_of(other.facts, figure.name))
    return _Baseline(facts=None, why_not=f"this run has no baseline cell of repetition {number}")


def _reason(limit: Limit, span: Span | None, bound: float, outcome: LimitOutcome, why: str) -> str:
    unit = f" {limit.figure.unit}" if limit.figure.unit and limit.figure.unit != "records or cases" else ""
    against = f", bound {shown(bound)}{unit}" if limit.is_relative and not math.isnan(bound) else ""
    told = f"{CHECK_PREFIX}{limit.text}: {outcome}, {_told(span, unit)}{against}"
    return told + (f"; {why}" if why else "")


def _told(span: Span | None, unit: str) -> str:
    if span is None:
        return "not known"
    if span.value is None:
        return span.describe_hidden()
    of_clocks = f" ± {span.finite_error:.3f}" if span.finite_error is not None else ""
    if not math.isfinite(span.value):
        return f"{shown(span.value)}: {span.why_endless}" if span.why_endless else shown(span.value)
    return f"{shown(span.value)}{of_clocks}{unit}"


def shown(value: float) -> str:
    if not math.isfinite(value):
        return "not reached"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.4g}"


def finite(value: float | None) -> float | None:
    """For a document, which has no number for infinity."""
    return value if value is not None and math.isfinite(value) else None
