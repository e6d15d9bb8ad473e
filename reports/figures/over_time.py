"""What the chart of a cell over time shows: rates, latencies, in-sync replicas, leaders, brokers and faults. Pure.

Seconds count from the cell's start.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pandas as pd

from reports.evidence.asked import is_closed_loop
from reports.evidence.topic_events import events_of
from reports.figures.clock_bands import MS_MIN, TimeBand, end_to_end_error_ms, time_bands
from reports.figures.timeline import TimelineStep, seconds
from reports.read.cell import Cell
from reports.read.model import CORRECTED, END_TO_END, Basis, CellFacts
from runlog.records.cluster import BrokerEvent
from runlog.records.cluster_kinds import UNKNOWN, ClusterKind, Source
from runlog.records.partition import BecameLeader, IsrChanged, LeaderSeen, PartitionEvent

LANES_MAX = 6
_CATCH_UP: Final = 1.5  # times the highest rate that was asked
LATENCIES: Final = ("corrected p99", "corrected mean", "uncorrected p99")
LATENCIES_UNACKNOWLEDGED: Final = ("end to end p99", "end to end mean")  # with acks=0
_STATE_AFTER: Final[Mapping[ClusterKind, str]] = {
    ClusterKind.STARTED: "up",
    ClusterKind.RESUMED: "up",
    ClusterKind.KILLED: "down",
    ClusterKind.STOPPED: "down",
    ClusterKind.PAUSED: "paused",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    t: float
    rate: int  # records a second
    series: str
    drawn: int = 0  # the rate, or the top of the axis if it is above
    above: bool = False  # the chart marks it at its upper edge


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyPoint:
    t: float
    ms: float | None
    series: str
    beyond: bool = False  # it falls on a record that never came: the chart marks it at its upper edge


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Least and largest latency of a slot, in milliseconds."""

    t: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrPoint:
    t: float
    size: int
    members: str
    partition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderSpan:
    lane: str
    t: float
    t_end: float
    broker: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSpan:
    lane: str
    t: float
    t_end: float
    state: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OverTime:
    """The data sets of the chart. `latencies` are the series that were measured: with acks=0 those from end to end,
    none where nothing was measured. `clock`: how far these may be off between two load hosts."""

    rates: tuple[Rate, ...]
    latency: tuple[LatencyPoint, ...]
    spread: tuple[Spread, ...]
    clock: tuple[TimeBand, ...]
    faults: tuple[TimelineStep, ...]
    isr: tuple[IsrPoint, ...]
    leaders: tuple[LeaderSpan, ...]
    brokers: tuple[BrokerSpan, ...]
    latencies: tuple[str, ...]


def over_time(facts: CellFacts, steps: Sequence[TimelineStep]) -> OverTime:
    """`steps` are those of the cell's timeline."""
    first_us, last_us = facts.cell.span_us()
    at = ((facts.slots["t_us"] - first_us) / 1e6).round(3).tolist() if len(facts.slots) else []
    names = LATENCIES if facts.throughput_basis is Basis.ACKNOWLEDGED else LATENCIES_UNACKNOWLEDGED
    # The same specification, without the series that a closed loop has not.
    told = [name for name in names if not (is_closed_loop(facts.cell) and name.startswith(CORRECTED))]
    latency = _latency(facts, at, told)
    return OverTime(
        rates=_rates(facts, at),
        latency=latency,
        spread=_spread(facts, at),
        clock=time_bands(latency, end_to_end_error_ms(facts)),
        faults=tuple(step for step in steps if not step.wait),
        isr=_isr(facts.cell, first_us, last_us),
        leaders=_leaders(facts.cell, first_us, last_us),
        brokers=_brokers(facts.cell, first_us, last_us),
        latencies=names if any(point.ms is not None for point in latency) else (),
    )


def rate_top(asked_max: float) -> float:
    """Where an axis of rates ends: what is caught up after a fault comes at many times the asked rate for an instant,
    and would press the rest of the cell flat."""
    return asked_max * _CATCH_UP if asked_max > 0 else math.inf


def _rates(facts: CellFacts, at: Sequence[float]) -> tuple[Rate, ...]:
    if not at:
        return ()
    per_second = 1e6 / facts.slot_us
    top = rate_top(float(facts.slots["intended"].max()) * per_second)
    columns = (("intended", "asked"), ("sent", "sent"), ("acked", "acked"), ("received", "received"))
    return tuple(
        Rate(
            t=t,
            rate=round(n * per_second),
            series=series,
            drawn=round(min(n * per_second, top)),
            above=n * per_second > top,
        )
        for column, series in columns
        for t, n in zip(at, facts.slots[column].tolist(), strict=True)
    )


def _latency(facts: CellFacts, at: Sequence[float], names: Sequence[str]) -> tuple[LatencyPoint, ...]:
    if not at:
        return ()
    return tuple(
        LatencyPoint(t=t, ms=drawn_ms(us) if math.isfinite(us) else None, series=series, beyond=math.isinf(us))
        for series in names
        for t, us in zip(at, facts.slots[f"{series.replace(' ', '_')}_us"].tolist(), strict=True)
    )


def _spread(facts: CellFacts, at: Sequence[float]) -> tuple[Spread, ...]:
    if not at or is_closed_loop(facts.cell):
        return ()
    kind = CORRECTED if facts.throughput_basis is Basis.ACKNOWLEDGED else END_TO_END
    lows, highs = facts.slots[f"{kind}_min_us"].tolist(), facts.slots[f"{kind}_max_us"].tolist()
    return tuple(
        Spread(t=t, low=drawn_ms(low), high=drawn_ms(high))
        for t, low, high in zip(at, lows, highs, strict=True)
        if not pd.isna(low)
    )


def drawn_ms(us: float) -> float:
    """Milliseconds as they are drawn on a logarithmic axis."""
    return max(round(us / 1000, 3), MS_MIN)


def _chosen_partitions(events: Sequence[PartitionEvent]) -> list[int]:
    """The partitions with most events: there something happened."""
    counts = Counter(event.partition for event in events)
    return sorted(sorted(counts, key=lambda partition: (-counts[partition], partition))[:LANES_MAX])


def _isr(cell: Cell, first_us: int, last_us: int) -> tuple[IsrPoint, ...]:
    events = [event for event in events_of(cell, IsrChanged, LeaderSeen) if event.isr is not None]
    end = seconds(last_us, first_us)
    rows: list[IsrPoint] = []
    for partition in _chosen_partitions(events):
        last: IsrPoint | None = None
        for event in events:
            if event.partition != partition:
                continue
            isr = event.isr or ()
            members = ", ".join(str(member) for member in isr)
            if last is None or last.members != members:
                at = max(0.0, seconds(event.t_us, first_us))
                last = IsrPoint(t=at, size=len(isr), members=members, partition=f"partition {partition}")
                rows.append(last)
        if last is not None:
            rows.append(replace(last, t=end))
    return tuple(rows)


def _leaders(cell: Cell, first_us: int, last_us: int) -> tuple[LeaderSpan, ...]:
    """Who led each partition when: by the journals if they say so, else by the probe."""
    events: Sequence[BecameLeader | LeaderSeen] = events_of(cell, BecameLeader) or events_of(cell, LeaderSeen)
    end = seconds(last_us, first_us)
    rows: list[LeaderSpan] = []
    for partition in _chosen_partitions(events):
        own: list[LeaderSpan] = []
        for event in events:
            if event.partition != partition:
                continue
            broker = str(event.leader)
            label = f"{broker}, epoch {'?' if event.leader_epoch == UNKNOWN else event.leader_epoch}"
            if own and own[-1].label == label:
                continue
            at = max(0.0, seconds(event.t_us, first_us))
            if own:
                own[-1] = replace(own[-1], t_end=at)
            own.append(LeaderSpan(lane=f"p{partition}", t=at, t_end=end, broker=broker, label=label))
        rows += own
    return tuple(rows)


def _brokers(cell: Cell, first_us: int, last_us: int) -> tuple[BrokerSpan, ...]:
    end = seconds(last_us, first_us)
    spans: dict[str, list[BrokerSpan]] = {}
    told = [
        event
        for event in cell.cluster_events
        if isinstance(event, BrokerEvent) and event.kind in _STATE_AFTER and event.broker != UNKNOWN
    ]
    process = [event for event in told if event.source is Source.PROCESS]
    for event in process or told:
        broker = str(event.broker)
        own = spans.setdefault(broker, [])
        state = _STATE_AFTER[event.kind]
        if own and own[-1].state == state:
            continue
        at = max(0.0, seconds(event.t_us, first_us))
        if own:
            own[-1] = replace(own[-1], t_end=at)
        elif at > 0 and state != "up":
            own.append(BrokerSpan(lane=broker, t=0.0, t_end=at, state="up", label="up"))
        own.append(BrokerSpan(lane=broker, t=at, t_end=end, state=state, label=state))
    return tuple(sorted((span for own in spans.values() for span in own), key=lambda span: (span.lane, span.t)))
