"""A sweep's cells as observations: which settings, which figures, how noisy, and whether the figures may be used.

Cells at the sweep's rate give latency and cost. Cells at the ceiling give capacity and nothing else. Both are of one
configuration and one round, so the estimates put them together.

A cell stays in the list with a remark if it did not carry its load, if its client was the limit, or if it was
disturbed. A figure that is not comparable is left out of the estimates by name, never silently. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reports.evidence.asked import achieved_ratio, asked_per_s, unsent
from reports.evidence.configuration import Configuration as Promised
from reports.evidence.configuration import configuration_of
from reports.figures.sweep.behaviour import behaviour_of
from reports.judge.broker_cpu import still_warming
from reports.judge.checks import FAIL, INCONCLUSIVE, PASS
from reports.judge.figure_checks import ceiling_limit, library_limit
from reports.judge.judged import Judged
from reports.judge.lawful import IMPOSSIBLE, LAWFUL, rule
from reports.judge.noise import disturbance, unsteady
from reports.read.cell import Cell
from reports.read.model import CORRECTED, CellFacts
from runlog.quality.criteria import CRITERIA
from runlog.records.cell import CellKind, CellStatus
from runlog.records.measurements import FigureState
from runlog.records.sweep import Behaviour


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    name: str
    title: str
    unit: str
    more_is_better: bool
    scale: float = 1.0  # value shown = value * scale


CAPACITY, THROUGHPUT, P99, BROKER_CPU, WIRE_BYTES = "capacity", "throughput", "p99", "broker_cpu", "wire_bytes"
MEASURES: Final = (
    Measure(name=CAPACITY, title="capacity", unit="records/s", more_is_better=True),
    Measure(name=THROUGHPUT, title="throughput", unit="records/s", more_is_better=True),
    Measure(name=P99, title="p99 latency", unit="ms", more_is_better=False, scale=1e-3),
    Measure(name=BROKER_CPU, title="broker CPU per record", unit="µs", more_is_better=False),
    Measure(name=WIRE_BYTES, title="wire bytes per record", unit="B", more_is_better=False),
)
# Differences below 2 % count as none: on the front, in the choice, and in what is called better or worse.
MARGIN: Final = 0.02
BY_NAME: Final = {measure.name: measure for measure in MEASURES}

OK, NOT_SUSTAINED = FigureState.OK, FigureState.NOT_SUSTAINED
CLIENT_BOUND, FAILED, UNUSABLE = FigureState.CLIENT_BOUND, FigureState.FAILED, FigureState.UNUSABLE
NO_FIGURES: Final = (FAILED, UNUSABLE)
SUSTAINED_MIN: Final = 0.95
P99_MISSING_MAX: Final = 0.01  # with more sends that never were answered, the p99 is one of them
JVM_ENGINES: Final = frozenset({"kafka"})

SAFE, MAY_LOSE, NO_PROMISE = "loses none by contract", "may lose acknowledged records", "promises nothing (acks=0)"
LOSES_NONE, MAY_LOSE_AND = "loses none, ", "may lose, "  # how a contract begins that permits other damage
Configuration = tuple[tuple[str, str], ...]  # sorted (setting, value)


def state_words(state: FigureState) -> str:
    """What a reader is told of a cell whose figures are not what they seem, after its name."""
    return "did not carry its load" if state == NOT_SUSTAINED else f"was {state.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    cell_id: str
    title: str
    configuration: Configuration  # the declared levels, by which cells are compared
    round: int
    baseline: bool
    state: FigureState
    reason: str  # why the state is not ok
    values: dict[str, float]  # measure -> value; absent: not to be used
    log_errors: dict[str, float]  # measure -> standard error of ln(value) inside this one cell
    safety: str  # whether an acknowledged record may be lost
    contract: str  # the same with duplicates and order
    asked_per_s: float | None
    behaviour: Behaviour
    trusted: bool = True  # The verdict trusts the cell. The figures of another one stay in, and decide nothing.
    disturbed: str = ""  # how the host was taken from it; the figures stay in
    unsteady: str = ""  # how its rate changed, or that it began with a backlog; the figures stay in
    warming: str = ""  # how much the brokers' compilers took; the figures stay in
    compiler_unknown: bool = False  # brokers on a JVM, and its compiler's part of their CPU was not recorded
    note: str = ""
    # What it ran with: a level may change a swept setting beside its own, as acks=1 does with enable.idempotence.
    ran_with: Configuration = ()
    repetition: int = 1  # number of this run of its configuration; the baseline may have several in a round
    fork: int = 1  # number of the cluster that it ran on, among those that the sweep's rounds are dealt over
    at_ceiling: bool = False  # it shows capacity, and nothing of how the configuration does at the sweep's rate
    library_limit: str = ""  # why its capacity is that of the client's library


def observe(judged: Sequence[Judged]) -> list[Observation]:
    """One observation a sweep cell, in the run's order."""
    sweep = [item for item in judged if item.facts.cell.kind in (CellKind.SWEEP, CellKind.CEILING)]
    factors = _factors([item.facts.cell for item in sweep])
    return [_observation(item, tuple(sorted(own.items()))) for item, own in zip(sweep, factors, strict=True)]


def _factors(cells: Sequence[Cell]) -> list[dict[str, str]]:
    """The swept settings of each cell. `factors` of cell.json says them; older cells only have the five knobs."""
    declared = [cell.record.factors or cell.record.knobs for cell in cells]
    names = {name for one in declared for name in one}
    varying = {name for name in names if len({one.get(name) for one in declared}) > 1}
    return [{name: value for name, value in one.items() if name in varying} for one in declared]


def _observation(item: Judged, configuration: Configuration) -> Observation:
    facts = item.facts
    cell = facts.cell
    behaviour = behaviour_of(facts)
    state, reason = _state(item)
    values, errors = _values(facts, behaviour, state)
    promised = configuration_of(cell)
    safety = {LAWFUL: MAY_LOSE, IMPOSSIBLE: NO_PROMISE}.get(rule("lost", promised).lawful, SAFE)
    return Observation(
        cell_id=cell.cell_id,
        title=cell.title,
        configuration=configuration,
        round=cell.record.round_number,
        repetition=cell.record.repetition or 1,
        ran_with=tuple((name, cell.record.properties.get(name, value)) for name, value in configuration),
        baseline=cell.record.baseline,
        state=state,
        reason=reason,
        values=values,
        log_errors=errors,
        safety=safety,
        contract=_contract(safety, promised),
        asked_per_s=asked_per_s(facts),
        behaviour=behaviour,
        trusted=not _doubt(item),
        disturbed=disturbance(facts),
        unsteady=unsteady(facts),
        warming=still_warming(facts),
        compiler_unknown=BROKER_CPU in values
        and cell.record.engine in JVM_ENGINES
        and behaviour.compiler_us_per_record is None,
        note=cell.record.note,
        fork=cell.record.fork or 1,
        at_ceiling=cell.kind is CellKind.CEILING,
        library_limit=library_limit(facts) if CAPACITY in values else "",
    )


def _contract(safety: str, promised: Promised) -> str:
    """What else the settings permit, in a few words."""
    if safety == NO_PROMISE:
        return safety
    kinds = (("duplicated", "duplicate"), ("reordered", "reorder"))
    permitted = [verb for kind, verb in kinds if rule(kind, promised).lawful == LAWFUL]
    if safety == SAFE:
        return f"{LOSES_NONE}may {' and '.join(permitted)}" if permitted else "each record once, in order, none lost"
    return f"{MAY_LOSE_AND}{' and '.join(permitted)}" if permitted else "may lose acknowledged records"


def _state(item: Judged) -> tuple[FigureState, str]:
    """How far the figures of a cell may be used, and why no further."""
    facts = item.facts
    if item.verdict.result == FAIL:
        return FAILED, f"failed: {item.verdict.reasons[0]}"
    if facts.cell.record.outcome.status is not CellStatus.DONE:
        return UNUSABLE, f"not measured: {item.verdict.reasons[0]}"
    if not facts.throughput_records_per_s:
        return UNUSABLE, "no acknowledgement came in the measured window"
    asked = asked_per_s(facts)
    reached = facts.throughput_records_per_s
    sent = achieved_ratio(facts)
    share = facts.cell.record.outcome.health.busiest_process_cpu_share
    if facts.cell.kind is CellKind.CEILING and (limit := ceiling_limit(facts)):
        return CLIENT_BOUND, limit
    bound = next((c.reason for c in item.verdict.checks if c.result != PASS and "client-bound" in c.reason), "")
    if bound:
        return CLIENT_BOUND, bound
    if asked and min(reached / asked, 1.0 if sent is None else sent) < SUSTAINED_MIN:
        reason = f"reached {reached:,.0f} of the {asked:,.0f} records/s asked for"
        if share is not None and share >= CRITERIA.generator_cpu_share_max:
            return CLIENT_BOUND, f"{reason}, with the generator at {share:.0%} of a core"
        return NOT_SUSTAINED, reason
    has_p99 = facts.throughput_basis == "acknowledged" and facts.cell.kind is not CellKind.CEILING
    if has_p99 and (share_without := _share_without_answer(facts)) > P99_MISSING_MAX:
        return NOT_SUSTAINED, f"{share_without:.1%} of the records never were acknowledged, so that none is the p99"
    doubt = _doubt(item)
    return (FigureState.INCONCLUSIVE, doubt) if doubt else (OK, "")


def _doubt(item: Judged) -> str:
    """Why the verdict does not trust the cell. Empty if it does. An undecided limit is no doubt about the figures."""
    limits = {limit.limit for limit in item.verdict.limits}
    open_ = [one for one in item.verdict.checks if one.result == INCONCLUSIVE and one.name not in limits]
    return next((one.reason for one in open_ if not one.is_under_hole), open_[0].reason if open_ else "")


def doubted_configurations(observations: Sequence[Observation]) -> frozenset[Configuration]:
    """Those of which the verdict does not trust more than half of the cells: nothing is decided by their figures."""
    trusted: dict[Configuration, list[bool]] = {}
    for item in observations:
        trusted.setdefault(item.configuration, []).append(item.trusted)
    return frozenset(one for one, own in trusted.items() if sum(own) * 2 <= len(own))


def _share_without_answer(facts: CellFacts) -> float:
    """The share of the records due in the window that failed, are unknown, or were never sent."""
    counts, never = facts.counts, unsent(facts.cell)
    return (counts.failed + counts.unknown + never) / (counts.sent + never) if counts.sent else 0.0


def _values(facts: CellFacts, behaviour: Behaviour, state: str) -> tuple[dict[str, float], dict[str, float]]:
    """Figures that may be compared. Behind a queue that grows without end a p99 only tells how long the run was; a
    client at its limit tells nothing of the cluster; acks=0 has no acknowledgement whose latency could be compared.
    More acknowledgements than records were asked for are a backlog of before the window, which is no merit."""
    if state in (*NO_FIGURES, CLIENT_BOUND):
        return {}, {}
    if facts.cell.kind is CellKind.CEILING:
        interval = facts.throughput_interval
        return {CAPACITY: facts.throughput_records_per_s}, {CAPACITY: _log_error(*interval)} if interval else {}
    asked = asked_per_s(facts)
    values = {THROUGHPUT: min(facts.throughput_records_per_s, asked or math.inf)}
    errors: dict[str, float] = {}
    if facts.throughput_interval:
        errors[THROUGHPUT] = _log_error(*facts.throughput_interval)
    latency = facts.latency.get(CORRECTED)
    p99 = latency.p99_us if latency else None
    if latency and p99 and state != NOT_SUSTAINED and facts.throughput_basis == "acknowledged":
        values[P99] = p99
        if latency.p99_interval_us and math.isfinite(latency.p99_interval_us[1]):
            errors[P99] = _log_error(*latency.p99_interval_us)
    if behaviour.broker_cpu_without_compiler_us_per_record:
        values[BROKER_CPU] = behaviour.broker_cpu_without_compiler_us_per_record
        if behaviour.broker_cpu_log_error is not None:
            errors[BROKER_CPU] = behaviour.broker_cpu_log_error
    if behaviour.wire_bytes_per_record:
        values[WIRE_BYTES] = behaviour.wire_bytes_per_record
    return values, errors


def _log_error(low: float, high: float) -> float:
    """Standard error of the logarithm from a 95 % interval."""
    return math.log(high / low) / (2 * 1.96) if 0 < low <= high else 0.0


def configuration_text(configuration: Configuration) -> str:
    return " ".join(f"{name}={value}" for name, value in configuration) or "the one configuration"


def by_value(text: str) -> tuple[int, float, str]:
    """Numbers by size before words by name; `none` first among the words."""
    try:
        return (0, float(text), "")
    except ValueError:
        return (1, 0.0, "" if text == "none" else text)


def compiler_us(configuration: Configuration, observations: Sequence[Observation]) -> float | None:
    """What the brokers' compilers took per record, on average over the cells of a configuration; None: not recorded."""
    own = [item.behaviour for item in observations if item.configuration == configuration and BROKER_CPU in item.values]
    found = [each.compiler_us_per_record for each in own if each.compiler_us_per_record is not None]
    return sum(found) / len(found) if found else None


def is_on_jvm(observations: Sequence[Observation]) -> bool:
    """Whether the brokers ran on a JVM, as far as that was recorded."""
    return any(item.compiler_unknown or item.behaviour.compiler_us_per_record is not None for item in observations)
