"""The event lines of a cell that predictions use: journals and wire log, without the lines of other topics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, Protocol, TypeVar, overload

from reports.read.cell import Cell
from runlog.records.cluster_kinds import Source
from runlog.records.codec import from_line
from runlog.records.fault import FaultPhase, RecordsDeletedProof, TopicRecreatedProof
from runlog.records.partition import Appended, PartitionEvent
from runlog.records.wire import WireExchange, WireOutcome

NEVER_US: Final = 2**62
# Appended, but the client was not told, or told something else.
WITHHELD: Final = (WireOutcome.DROPPED, WireOutcome.REPLACED)
A = TypeVar("A", bound=PartitionEvent)
B = TypeVar("B", bound=PartitionEvent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Offsets [from_offset, end_offset) of a partition. For `lost`: sends acknowledged in [after_us, before_us).

    `clock_error_us`: by how much `after_us` lies before the time that another host's clock showed."""

    kind: str
    partition: int
    from_offset: int
    end_offset: int
    after_us: int = 0
    before_us: int = NEVER_US
    clock_error_us: int = 0


@overload
def events_of(cell: Cell, kind: type[A], /) -> list[A]: ...
@overload
def events_of(cell: Cell, kind: type[A], other: type[B], /) -> list[A | B]: ...
def events_of(cell: Cell, *kinds: type[Any]) -> list[Any]:  # as the overloads say
    """Events of the cell's own topic, in order of time. One that names no topic is taken for the cell's."""
    topic = cell.record.topic.name
    return [
        event
        for event in cell.cluster_events
        if isinstance(event, kinds) and (topic is None or event.topic is None or event.topic == topic)
    ]


def deletions(cell: Cell) -> list[Interval]:
    """What the harness deleted with DeleteRecords: all below the offset that it asked for, and that the leader's log
    start has reached."""
    starts: dict[int, int] = {}
    for line in cell.fault_lines:
        if line.kind == "records_deleted" and line.phase is FaultPhase.PROVED:
            proof = from_line(RecordsDeletedProof, line.detail)
            asked = proof.start_offset if proof.wanted is None else min(proof.wanted, proof.start_offset)
            starts[proof.partition] = max(starts.get(proof.partition, 0), asked)
    return [
        Interval(kind="deleted", partition=partition, from_offset=0, end_offset=start)
        for partition, start in starts.items()
        if start > 0
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recreation:
    """The topic was deleted, and created anew after `cut_us`: a moment at which no broker had it."""

    cut_us: int
    ends: dict[int, int]  # end offset of each partition when the deletion was asked for


# The most records that a partition may take between that question and its end.
_AFTER_THE_QUESTION = 1 << 20


def recreations(cell: Cell) -> list[Recreation]:
    """The recreations in order of time. Answers of the old topic come before each cut, those of the new one after
    it."""
    begun_us: dict[str, int] = {}
    found: list[Recreation] = []
    for line in cell.fault_lines:
        if line.kind != "topic_recreated":
            continue
        if line.phase is FaultPhase.APPLIED:
            begun_us[line.id] = line.t_us
        elif line.phase is FaultPhase.PROVED and line.id in begun_us:
            # The last answers of the old topic are under way when the last broker forgets it. The first answers of the
            # new topic come not before it is created. The middle between the two times separates them.
            proof = from_line(TopicRecreatedProof, line.detail)
            between_us = (proof.gone_us + proof.created_us) // 2
            found.append(Recreation(cut_us=begun_us[line.id] + between_us, ends=dict(proof.ends)))
    return sorted(found, key=lambda item: item.cut_us)


def gone_with_the_topic(cell: Cell) -> list[Interval]:
    """Everything that was acknowledged between each cut and the cut before it."""
    found: list[Interval] = []
    after_us = 0
    for item in recreations(cell):
        found += [
            Interval(
                kind="lost",
                partition=partition,
                from_offset=0,
                end_offset=end + _AFTER_THE_QUESTION,
                after_us=after_us,
                before_us=item.cut_us,
            )
            for partition, end in item.ends.items()
        ]
        after_us = item.cut_us
    return found


def lives(cell: Cell) -> list[Cell]:
    """The cell once for each life of its topic, with that life's events: offsets and epochs begin again in each."""
    cuts = [0, *(item.cut_us for item in recreations(cell)), NEVER_US]
    if len(cuts) == 2:
        return [cell]
    return [
        replace(cell, cluster_events=tuple(event for event in cell.cluster_events if begin <= event.t_us < end))
        for begin, end in pairwise(cuts)
    ]


def last_life(cell: Cell) -> Cell:
    """The events that concern the log that is read at the end. Appends to a deleted log put nothing at its offsets.

    Exchanges with the old topic stay, without an offset: they show in which order a client first sent its records.
    """
    found = recreations(cell)
    if not found:
        return cell
    cut_us = found[-1].cut_us
    exchanges = (line if line.t_us >= cut_us else replace(line, base_offset=-1) for line in cell.exchanges)
    return replace(lives(cell)[-1], exchanges=tuple(exchanges))


def appended(cell: Cell) -> list[Appended]:
    return [event for event in events_of(cell, Appended) if event.source is Source.JOURNAL]


def wire_lines(cell: Cell) -> list[WireExchange]:
    """Exchanges with the cell's own topic, in the order in which they began."""
    topic = cell.record.topic.name
    lines = [
        line
        for line in cell.exchanges
        if line.partition >= 0 and (topic is None or line.topic is None or line.topic == topic)
    ]
    return sorted(lines, key=lambda line: line.mono_ns)


def succeeded(line: WireExchange) -> bool:
    """The broker appended this exchange's batch and said so, whether or not the client heard it."""
    is_appended = line.outcome is WireOutcome.DELIVERED or line.outcome in WITHHELD
    return is_appended and line.error_code == 0 and line.base_offset >= 0


class _OfBatch(Protocol):
    @property
    def client_id(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def crc(self) -> int: ...


def batch_key(line: _OfBatch) -> tuple[str, int, int]:
    return line.client_id, line.partition, line.crc
