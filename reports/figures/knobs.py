"""The effect of each knob: the baseline cells beside those that differ from the baseline in this knob alone. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from reports.figures.latencies import p99_of
from reports.judge.judged import Judged
from reports.read.cell import Cell
from reports.read.model import CellFacts
from runlog.records.cell import CellKind, CellRecord

KNOBS = ("batch.size", "linger.ms", "compression.type", "acks", "max.in.flight.requests.per.connection")
_IDEMPOTENCE = "enable.idempotence"
_ALIKE = 0.15  # share by which the largest batches may exceed the smallest
_ROOM = 1.05  # An axis reaches so far beyond the largest value.


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobRow:
    """p99 in milliseconds. `low` and `high` are the ends of 95 % intervals from inside one cell, the value itself where
    there is none. They say nothing about the next cell, so only tables have them. All three are infinite if the p99 is
    not reached."""

    title: str
    cell_id: str
    value: str
    role: str
    capacity: float | None  # The capacity of the cell at the ceiling in the same repetition.
    throughput: float
    throughput_low: float
    throughput_high: float
    p99: float | None
    p99_low: float | None
    p99_high: float | None
    basis: str
    records_per_batch: float | None
    records_per_batch_low: float | None
    records_per_batch_high: float | None
    compression_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Upper ends of the axes that the charts of all knobs share; of capacity, which has a logarithmic one, both."""

    capacity_min: float
    capacity: float
    p99_ms: float
    throughput: float
    records_per_batch: float


def settings_text(cell: Cell) -> str:
    """The knobs, then what else tells two cells apart: what the sweep varies beyond them, and idempotence, which `acks`
    may change. Empty without knobs."""
    record = cell.record
    others = (name for name in (*record.factors, _IDEMPOTENCE) if name not in record.knobs)
    further = {name: value for name in others if (value := record.properties.get(name, record.factors.get(name)))}
    return " ".join(f"{name}={value}" for name, value in {**record.knobs, **further}.items()) if record.knobs else ""


def knob_rows(judged: Sequence[Judged], capacity: Mapping[str, float]) -> dict[str, tuple[KnobRow, ...]]:
    """Knob -> rows by value. A knob whose cells all have one value is left out. `capacity`: by the paced cell's id."""
    cells = [item.facts for item in judged if item.facts.cell.kind is CellKind.SWEEP]
    sweep = [facts for facts in cells if facts.cell.record.knobs]
    baselines = [facts.cell.record for facts in sweep if facts.cell.record.baseline]
    if not baselines:
        return {}
    reference = baselines[0].knobs
    changed = [facts.cell.record.changed for facts in sweep]
    others = dict.fromkeys(name for name in changed if name and name not in reference)
    result: dict[str, tuple[KnobRow, ...]] = {}
    for knob in (*reference, *others):
        rows = [_row(facts, knob, capacity) for facts in sweep if _differs_only_in(knob, facts.cell.record, reference)]
        if len({row.value for row in rows}) > 1:
            result[knob] = tuple(sorted(rows, key=_by_value))
    return {knob: result[knob] for knob in (*KNOBS, *(k for k in result if k not in KNOBS)) if knob in result}


def batch_words(rows: Sequence[KnobRow]) -> str:
    """Whether the size of the batches says why the values of a knob differ. Empty where it is unknown."""
    by_value: dict[str, list[float]] = {}
    for row in rows:
        if row.records_per_batch is not None:
            by_value.setdefault(row.value, []).append(row.records_per_batch)
    means = sorted(sum(own) / len(own) for own in by_value.values())
    if not means:
        return ""
    low, high = f"{means[0]:.1f}", f"{means[-1]:.1f}"
    if means[-1] <= means[0] * (1 + _ALIKE):
        sizes = low if low == high else f"{low} to {high}"
        return f"Records per batch are alike at all values ({sizes}): the reason for a difference is another one."
    return f"Records per batch differ ({low} to {high}): that tells part of why."


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobMiddle:
    """Geometric means over the repetitions of one value, as in the forest. None if no repetition has the figure."""

    value: str
    capacity: float | None
    throughput: float | None
    p99: float | None
    records_per_batch: float | None


def middles(rows: Sequence[KnobRow]) -> tuple[KnobMiddle, ...]:
    """What the line of a chart joins, by value in the order of the rows."""
    by_value: dict[str, list[KnobRow]] = {}
    for row in rows:
        by_value.setdefault(row.value, []).append(row)
    return tuple(
        KnobMiddle(
            value=value,
            capacity=_geometric_mean([row.capacity for row in own]),
            throughput=_geometric_mean([row.throughput for row in own]),
            p99=_geometric_mean([row.p99 for row in own]),
            records_per_batch=_geometric_mean([row.records_per_batch for row in own]),
        )
        for value, own in by_value.items()
    )


def _geometric_mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and value > 0]
    return geometric_mean(known) if known else None


def limits_of(knobs: Mapping[str, Sequence[KnobRow]]) -> Limits:
    rows = [row for group in knobs.values() for row in group]
    return Limits(
        capacity_min=min([row.capacity for row in rows if row.capacity], default=1.0 / _ROOM) / _ROOM,
        capacity=_top([row.capacity for row in rows]),
        p99_ms=_top([row.p99 for row in rows]),
        throughput=_top([row.throughput for row in rows]),
        records_per_batch=_top([row.records_per_batch for row in rows]),
    )


def _top(values: Sequence[float | None]) -> float:
    return max([float(value) for value in values if value is not None and math.isfinite(value)], default=1.0) * _ROOM


def _differs_only_in(knob: str, cell: CellRecord, reference: Mapping[str, str]) -> bool:
    """Uses the plan if it says so, because `acks` may need another setting with it, which is no knob of its own."""
    if cell.baseline:
        return True
    if cell.changed:
        return cell.changed == knob
    return all(cell.knobs.get(other) == value for other, value in reference.items() if other != knob)


def _by_value(row: KnobRow) -> tuple[int, float, str]:
    try:
        return (0, float(row.value), "")
    except ValueError:
        return (1, 0.0, {"none": ""}.get(row.value, row.value))


def _row(facts: CellFacts, knob: str, capacity: Mapping[str, float]) -> KnobRow:
    p99 = p99_of(facts)
    cell = facts.cell.record
    low, high = facts.throughput_interval or (facts.throughput_records_per_s, facts.throughput_records_per_s)
    return KnobRow(
        title=facts.cell.title,
        cell_id=facts.cell.cell_id,
        value=cell.knobs.get(knob) or cell.properties.get(knob, ""),
        role="baseline" if cell.baseline else "changed",
        capacity=capacity.get(facts.cell.cell_id),
        throughput=facts.throughput_records_per_s,
        throughput_low=low,
        throughput_high=high,
        p99=p99.ms,
        p99_low=p99.low_ms,
        p99_high=p99.high_ms,
        basis=p99.basis,
        records_per_batch=facts.records_per_batch,
        records_per_batch_low=facts.records_per_batch,
        records_per_batch_high=facts.records_per_batch,
        compression_ratio=facts.compression_ratio,
    )
