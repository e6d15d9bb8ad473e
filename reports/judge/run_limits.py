"""Limits for a figure of several cells, or of the run itself: held, broken or undecided, each with its reason. Pure.

A cell that is inconclusive, disturbed, or does not show the figure leaves a range in which its figure may lie. The
limit is broken if no value in that range could hold it. It is held only if every cell shows its figure, and if every
value that a quiet host might have given holds it. A figure that spans the clocks of two hosts is a range too, as wide
as these clocks are not known. Shown by tests/reports/test_reports_run_limits.py.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reports.judge.cell_values import is_certain, span_of
from reports.judge.checks import Check
from reports.judge.figure import Better
from reports.judge.judged import Judged
from reports.judge.limit_figures import FOUND_RATE, LimitFigure
from reports.judge.limit_grammar import Aggregate, Limit, LimitError, parse_limit
from reports.judge.limit_scope import OF_SWEEP, is_about, is_ceiling
from reports.judge.limits import CHECK_PREFIX, RESULTS, doubt, finite, shown, why_inconclusive
from runlog.records.run import RunLimitRecord
from runlog.records.search import Clause, SearchEnd, SearchRecord
from runlog.records.verdicts import LimitOutcome, LimitRecord

RUN: Final = "run"  # what a limit of the whole run is about
_TOLD_MAX: Final = 8  # figures of repetitions
_AGGREGATES: Final[Mapping[Aggregate, Callable[[Sequence[float]], float]]] = {
    Aggregate.MEDIAN: statistics.median, Aggregate.MEAN: statistics.fmean, Aggregate.MIN: min, Aggregate.MAX: max,
    Aggregate.TOTAL: math.fsum,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimit:
    """`subject` is a configuration (the id of its cells without the repetition) or `run`."""

    subject: str
    held: LimitRecord
    check: Check


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figure:
    """`low` and `high` are where it may lie; `value` is None if it is not known."""

    low: float
    high: float
    value: float | None
    told: str  # from what it was made
    is_known: bool = True
    is_of_quiet_hosts: bool = True  # no other program made it worse
    error: float = 0.0  # The error of the clocks of two hosts, in the figure's unit.
    why: str = ""  # it is not known, or is a range


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    """Where the figure of one cell may lie. `value` is None if it is not known, or not shown."""

    low: float = 0.0
    high: float = math.inf
    value: float | None = None
    error: float = 0.0
    is_known: bool = False
    noise: str = ""
    why: str = ""  # it is not certain


def run_limits(
    records: Sequence[RunLimitRecord], judged: Sequence[Judged], search: SearchRecord | None = None
) -> tuple[RunLimit, ...]:
    """One for each limit of the run, and for each configuration that a limit is about."""
    return tuple(one for record in records for one in _of_record(record, judged, search))


def _of_record(record: RunLimitRecord, judged: Sequence[Judged], search: SearchRecord | None) -> list[RunLimit]:
    try:
        limit = parse_limit(record.limit)
    except LimitError as error:  # written by another version, or by hand
        return [_told(record.limit, "", RUN, LimitOutcome.UNDECIDED, None, None, str(error))]
    if limit.figure.name == FOUND_RATE:
        return [_judged(limit, RUN, _found_rate(search), None)]
    ids = [(item, item.facts.cell.cell_id, item.facts.cell.kind) for item in judged]
    has_ceilings = any(is_ceiling(name, kind) for _, name, kind in ids)
    cells = [item for item, name, kind in ids if is_about(limit, record.cells, name, kind, has_ceilings=has_ceilings)]
    if not limit.is_of_configuration:
        return [_judged(limit, RUN, _figure_of(limit, cells), None)]
    groups: dict[str, list[Judged]] = {}
    for item in cells:
        groups.setdefault(_configuration(item), []).append(item)
    if limit.is_relative:
        groups = {name: group for name, group in groups.items() if _is_beside_baseline(group)}
    if not groups:
        return [
            _told(limit.text, limit.figure.name, RUN, LimitOutcome.UNDECIDED, None, None, "no cell that it is about")
        ]
    return [
        _judged(limit, name, _figure_of(limit, group), _baseline_of(limit, group, judged))
        for name, group in groups.items()
    ]


def _baseline_of(limit: Limit, group: Sequence[Judged], judged: Sequence[Judged]) -> _Figure | None:
    """That of the same kind: a ceiling is compared with the baseline's ceiling."""
    if not limit.is_relative:
        return None
    kinds = {item.facts.cell.kind for item in group}
    return _figure_of(limit, [one for one in judged if one.facts.cell.record.baseline and one.facts.cell.kind in kinds])


def _configuration(item: Judged) -> str:
    """A cell that left nothing has its id alone."""
    cell = item.facts.cell
    number = cell.record.repetition
    return re.sub(r"-r\d+$", "", cell.cell_id) if number is None else cell.cell_id.removesuffix(f"-r{number}")


def _is_beside_baseline(group: Sequence[Judged]) -> bool:
    """A cell that left nothing does not say what it was: it must not take its configuration away."""
    records = [item.facts.cell.record for item in group]
    return any(record.kind in OF_SWEEP and not record.baseline for record in records)


def _figure_of(limit: Limit, cells: Sequence[Judged]) -> _Figure:
    assert limit.aggregate is not None
    if not cells:
        return _Figure(low=0, high=math.inf, value=None, told="no cell", is_known=False, why="no cell shows it")
    ranges = [_range(item, limit.figure) for item in cells]
    combine = _AGGREGATES[limit.aggregate]
    values = [one.value for one in ranges if one.value is not None]
    why = next(
        (f"{item.facts.cell.cell_id}: {one.why}" for item, one in zip(cells, ranges, strict=True) if one.why), ""
    )
    unknown = sum(not one.is_known for one in ranges)
    error = max(one.error for one in ranges)
    told = f"over {len(cells)} cell{'s' if len(cells) != 1 else ''}"
    if limit.aggregate is not Aggregate.TOTAL and 1 < len(values) <= _TOLD_MAX:
        told += f" ({', '.join(shown(value) for value in values)})"
    if unknown:
        told += f", not known in {unknown}"
    if hidden := sum(one.is_known and one.value is None for one in ranges):
        told += f", not shown in {hidden}"
    return _Figure(
        low=combine([one.low for one in ranges]),
        high=combine([one.high for one in ranges]),
        value=combine(values) if len(values) == len(cells) else None,
        told=told,
        is_known=not unknown,
        is_of_quiet_hosts=not any(one.noise for one in ranges),
        error=error,
        why=why,
    )


def _range(item: Judged, figure: LimitFigure) -> _Range:
    if why := why_inconclusive(item):
        return _Range(why=f"the cell is inconclusive: {why}")
    span = span_of(item.facts, figure.name)
    if span is None:
        return _Range(why="the cell does not show this figure")
    low, high = span.low, span.high
    noise = "" if figure.better is Better.NEITHER else doubt(item.facts, figure)
    if noise:
        low, high = (0.0, high) if figure.better is Better.LOW else (low, math.inf)
    return _Range(
        low=low, high=high, value=span.value, error=span.error, is_known=True, noise=noise,
        why=noise or span.why_open(),
    )  # fmt: skip


def _found_rate(search: SearchRecord | None) -> _Figure:
    if search is None or not search.probes:
        return _Figure(low=0, high=math.inf, value=None, told="", is_known=False, why="the search found no rate")
    rate, high = search.rate_per_s, search.high_per_s
    told = (
        f"kept with 95 % by {len(search.probes)} tries; half of them keep {shown(search.half_per_s)} "
        f"(95 %: {shown(search.low_per_s)} to {shown(high)})"
    )
    if search.ended_at is SearchEnd.LOW:
        return _Figure(low=0, high=high, value=None, told=told, is_known=False, why="no rate of the range was kept")
    if rate is None:
        return _Figure(
            low=0, high=high, value=None, told=told, is_known=False, why="no rate was found that is kept with 95 %"
        )
    if search.ended_at is SearchEnd.HIGH:
        return _Figure(low=rate, high=math.inf, value=rate, told=told, why="the highest rate of the range was kept")
    if Clause.GENERATOR in search.limited_by:
        return _Figure(low=rate, high=math.inf, value=rate, told=told, why="the load generator itself was the limit")
    # The rate that is kept with 95 % lies below the limit, so a bound above the limit's interval is broken.
    why = "the bound lies between the rate that was found and the upper end of the limit's interval"
    return _Figure(low=rate, high=high, value=rate, told=told, why=why)


def _judged(limit: Limit, subject: str, figure: _Figure, baseline: _Figure | None) -> RunLimit:
    outcome, bound, why = _outcome(limit, figure, baseline)
    unit = f" {limit.figure.unit}" if limit.figure.unit and limit.figure.unit != "records or cases" else ""
    of_clocks = f" ± {figure.error:.3f}" if finite(figure.error) else ""
    value = ""
    if figure.value is not None:
        value = f"{shown(figure.value)}{of_clocks}{unit if math.isfinite(figure.value) else ''} "
    against = f", bound {shown(bound)}{unit}" if limit.is_relative and bound is not None else ""
    text = f"{value}{figure.told}{against}" + (f"; {why}" if why else "")
    return _told(
        limit.text, limit.figure.name, subject, outcome, figure.value, bound, text, finite(figure.error) or None
    )


def _outcome(limit: Limit, figure: _Figure, baseline: _Figure | None) -> tuple[LimitOutcome, float | None, str]:
    bound: float | None = limit.bound
    low = high = limit.bound
    if baseline is not None:
        if not baseline.is_known or not baseline.is_of_quiet_hosts or not math.isfinite(baseline.high):
            return LimitOutcome.UNDECIDED, None, f"the baseline: {baseline.why or 'it does not show this figure'}"
        bound = None if baseline.value is None else limit.bound * baseline.value
        low, high = sorted((limit.bound * baseline.low, limit.bound * baseline.high))
    certain = is_certain(limit.comparison, figure.low, figure.high, low, high)
    if certain is False:
        return LimitOutcome.BROKEN, bound, ""
    if certain and figure.is_known:
        return LimitOutcome.HELD, bound, ""
    of_baseline = f"the baseline: {baseline.why}" if baseline is not None and baseline.why else ""
    return LimitOutcome.UNDECIDED, bound, "; ".join(filter(None, [figure.why, of_baseline]))


def _told(
    limit: str, figure: str, subject: str, outcome: LimitOutcome, value: float | None, bound: float | None, why: str,
    clock_error: float | None = None,
) -> RunLimit:  # fmt: skip
    reason = f"{CHECK_PREFIX}{limit}: {outcome}, {why}"
    return RunLimit(
        subject=subject,
        held=LimitRecord(
            limit=limit,
            figure=figure,
            value=finite(value),
            bound=finite(bound),
            outcome=outcome,
            reason=reason,
            clock_error=clock_error,
        ),
        check=Check(name=f"{CHECK_PREFIX}{limit}", result=RESULTS[outcome], reason=reason),
    )
