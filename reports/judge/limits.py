"""Limits that a suite sets for figures of its cells: held, broken or undecided, each with its reason. Pure.

If a figure is not known, or if its cell is inconclusive, the limit is undecided and never a pass. If others disturbed
the host, a limit that is still met counts as held. A limit that is not met is undecided there, because the host may be
the cause. Shown by tests/reports/test_reports_limits.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from reports.evidence.asked import achieved_ratio
from reports.judge.broker_cpu import broker_cpu
from reports.judge.checks import FAIL, INCONCLUSIVE, PASS, Check, worst
from reports.judge.figure_checks import ceiling_limit
from reports.judge.judged import Judged
from reports.judge.limit_figures import CAPACITY, FIGURES, LATENCIES, LEVELS, THROUGHPUT, Better, LimitFigure
from reports.judge.limit_grammar import Limit, LimitError, parse_limit
from reports.judge.noise import disturbance
from reports.read.model import QUANTILES, CellFacts, Latency
from runlog.quality.criteria import Criteria
from runlog.records.cell import CellKind
from runlog.records.verdicts import LimitOutcome, LimitRecord, Result

CHECK_PREFIX: Final = "limit "
_QUANTILES: Final = dict(QUANTILES)


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
    value = figures_of_cell(item.facts).get(limit.figure.name)
    baseline = _baseline_of(item, judged) if limit.is_relative else None
    bound = _bound(limit, baseline)
    outcome, why = _outcome(limit, value, item, baseline)
    return LimitRecord(
        limit=limit.text,
        figure=limit.figure.name,
        value=finite(value),
        bound=finite(bound),
        outcome=outcome,
        reason=_reason(limit, value, bound, outcome, why),
    )


def _outcome(limit: Limit, value: float | None, item: Judged, baseline: _Baseline | None) -> tuple[LimitOutcome, str]:
    """The outcome, and why it is undecided."""
    if why := why_inconclusive(item):
        return LimitOutcome.UNDECIDED, f"the cell is inconclusive: {why}"
    if value is None:
        return LimitOutcome.UNDECIDED, "the run does not show this figure"
    of_baseline = None
    if baseline is not None:
        if baseline.facts is None:
            return LimitOutcome.UNDECIDED, baseline.why_not
        of_baseline = figures_of_cell(baseline.facts).get(limit.figure.name)
        if of_baseline is None or not math.isfinite(of_baseline):
            return LimitOutcome.UNDECIDED, "the baseline's cell does not show this figure"
    is_held = limit.holds(value, of_baseline)
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
    return (ceiling_limit(facts, Criteria()) if is_capacity else "") or disturbance(facts)


def _is_held_against_noise(limit: Limit) -> bool:
    """Others on the host only make a figure worse. If a bound on its bad side holds, it would hold without them too."""
    return (limit.figure.better is Better.LOW and limit.comparison in ("<", "<=")) or (
        limit.figure.better is Better.HIGH and limit.comparison in (">", ">=")
    )


def _baseline_of(item: Judged, judged: Sequence[Judged]) -> _Baseline:
    """The baseline's cell of the same repetition: one round's cells are next to each other in time."""
    own = item.facts.cell.record
    number = own.repetition or 1
    for other in judged:
        record = other.facts.cell.record
        if record.baseline and record.kind == own.kind and (record.repetition or 1) == number:
            if why := why_inconclusive(other):
                return _Baseline(facts=None, why_not=f"the baseline's cell is inconclusive: {why}")
            return _Baseline(facts=other.facts)
    return _Baseline(facts=None, why_not=f"this run has no baseline cell of repetition {number}")


def _bound(limit: Limit, baseline: _Baseline | None) -> float | None:
    if baseline is None:
        return limit.bound
    value = None if baseline.facts is None else figures_of_cell(baseline.facts).get(limit.figure.name)
    return None if value is None else limit.bound * value


def _reason(limit: Limit, value: float | None, bound: float | None, outcome: LimitOutcome, why: str) -> str:
    unit = f" {limit.figure.unit}" if limit.figure.unit and limit.figure.unit != "records or cases" else ""
    told = "not known" if value is None else f"{shown(value)}{unit if math.isfinite(value) else ''}"
    against = f", bound {shown(bound)}{unit}" if limit.is_relative and bound is not None else ""
    return f"{CHECK_PREFIX}{limit.text}: {outcome}, {told}{against}" + (f"; {why}" if why else "")


def shown(value: float) -> str:
    if not math.isfinite(value):
        return "without an end (more sends than that never were acknowledged)"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:.4g}"


def finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


# --- figures of one cell ----------------------------------------------------------------------------------------------


def figures_of_cell(facts: CellFacts) -> dict[str, float | None]:
    """Every figure of `limit_figures.FIGURES`; None where the run does not show it, infinite where it has no end."""
    counts, recovery = facts.counts, facts.recovery
    cpu = broker_cpu(facts)
    found: dict[str, float | None] = {
        THROUGHPUT: facts.throughput_records_per_s,
        CAPACITY: facts.throughput_records_per_s if facts.cell.kind is CellKind.CEILING else None,
        "achieved_ratio": achieved_ratio(facts),
        "gap_ms": _ms(facts.gap_us),
        "detect_ms": _ms(recovery.detect_us if recovery else None),
        "elect_ms": _ms(recovery.elect_us if recovery else None),
        "first_ack_ms": _ms(recovery.first_ack_us if recovery else None),
        "recover_ms": _ms(recovery.recover_us if recovery else None),
        "area_record_seconds": recovery.area_record_seconds if recovery else None,
        "broker_cpu_us_per_record": cpu.lasting_us if cpu else None,
        "records_per_batch": facts.records_per_batch,
        "compression_ratio": facts.compression_ratio,
        "log_bytes": float(facts.log_bytes),
        "sent": float(counts.sent_total),
        "acked": float(counts.acked_total),
        "failed": float(counts.failed_total),
        "unknown": float(counts.unknown_total),
    }
    for prefix, (kind, _) in LATENCIES.items():
        latency = facts.latency.get(kind, Latency())
        for level in LEVELS:
            found[f"{prefix}{level}_ms"] = _latency_ms(latency, level)
    for name in FIGURES:
        if name not in found:
            found[name] = float(facts.anomaly_count(name))
    corrupt = (
        found["corrupt"] or 0.0,
        counts.corrupt_received,
        len(facts.cell.record.outcome.final_read.corrupt or ()),
    )
    found["corrupt"] = float(max(corrupt))
    found["lost"] = None if facts.lost is None else float(facts.lost)
    return found


def _latency_ms(latency: Latency, level: str) -> float | None:
    if level == "mean":
        return _ms(latency.mean_us)
    if level == "max":
        return _ms(latency.max_us)
    value = latency.quantiles.get(level)
    if value is None and latency.n and latency.quantile_of_maximum < _QUANTILES[level]:
        return math.inf  # it falls on a send that never was acknowledged
    return _ms(value)


def _ms(value_us: float | None) -> float | None:
    return None if value_us is None else value_us / 1000
