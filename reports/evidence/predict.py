"""Predicts which records a fault must damage, from journals, log dumps and the wire, without looking at the outcome.

Pure: takes the event lines of one cell and gives offset intervals. The queries turn these into identities, by the
acknowledgements (loss) or by the final log (duplicates, order). tests/reports/test_reports_predict.py shows each rule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from reports.evidence.configuration import is_idempotent
from reports.evidence.predict_answers import AnswersGone, lost_by_answers
from reports.evidence.predict_dumped import lost_by_dump
from reports.evidence.predict_order import reordered_intervals
from reports.evidence.removals import start_offsets
from reports.evidence.topic_events import (
    NEVER_US,
    WITHHELD,
    Interval,
    appended,
    batch_key,
    events_of,
    gone_with_the_topic,
    last_life,
    succeeded,
    wire_lines,
)
from reports.read.cell import Cell
from runlog.records.cluster_kinds import ClusterKind, Source
from runlog.records.holes import Hole
from runlog.records.partition import Appended, BecameLeader, LeaderSeen, SequenceRefused, Truncated
from runlog.records.wire import WireExchange, WireOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    intervals: tuple[Interval, ...]
    how: dict[str, str]  # kind -> sentence
    holes: tuple[Hole, ...] = ()  # what could not be predicted, for nobody saw it


def predict(cell: Cell) -> Prediction:
    """Intervals that must be lost, duplicated or reordered, and how each was found."""
    lost, how_lost, holes = _lost(cell)
    gone = gone_with_the_topic(cell)
    if gone:
        how_lost += "; and all that was acknowledged before the topic was created anew"
    at_the_end = last_life(cell)
    duplicated, how_duplicated = _duplicated(at_the_end)
    reordered, how_reordered = reordered_intervals(at_the_end, removed=lost, starts=start_offsets(cell))
    return Prediction(
        intervals=(*lost, *gone, *duplicated, *reordered),
        how={"lost": how_lost, "duplicated": how_duplicated, "reordered": how_reordered},
        holes=tuple(holes),
    )


# Loss: a truncation removed records that had been acknowledged.


def _lost(cell: Cell) -> tuple[list[Interval], str, list[Hole]]:
    leader_changes = events_of(cell, BecameLeader, LeaderSeen)
    truncations = [_beyond_the_next_leader(event, leader_changes) for event in events_of(cell, Truncated)]
    journal = appended(cell)
    saved = _saved_elsewhere(journal, truncations)
    intervals: list[Interval] = []
    holes: list[Hole] = []
    by_answers: list[AnswersGone] = []
    without_cause = 0
    for event in truncations:
        first, end = event.to_offset, event.from_offset
        if first >= end:
            continue
        if event.source is Source.WIRE:
            until_us = NEVER_US if event.until_us is None else event.until_us
            by_answers.append(AnswersGone(event=event, until_us=until_us))
            continue
        partition, epoch = event.partition, event.leader_epoch
        own = [item for item in journal if _touches(item, partition, first, end)]
        if event.restarted_at is not None:
            # The leader's log begins above these records. Those that diverged are lost: a later leader gave their
            # offsets again. The others were removed at the leader.
            again = _by_appends(own, partition, first, end, epoch, saved)
            intervals += [item for item in again if item.before_us != NEVER_US]
            continue
        if any(item.leader_epoch == epoch for item in own):
            intervals += _by_appends(own, partition, first, end, epoch, saved)
            continue
        cause_us = leader_change_us(leader_changes, partition, epoch)
        if cause_us is None:
            without_cause += 1
            cause_us = event.t_us
        elif event.source is Source.LOG_DUMP:
            match lost_by_dump(cell, event, leader_changes, cause_us):
                case AnswersGone() as gone:
                    by_answers.append(gone)
                case Interval() as interval:
                    intervals.append(interval)
                case interval, hole:
                    intervals.append(interval)
                    holes.append(hole)
            continue
        intervals.append(
            Interval(kind="lost", partition=partition, from_offset=first, end_offset=end, before_us=cause_us)
        )
    intervals += lost_by_answers(cell, by_answers)
    return intervals, _how_lost(truncations, has_journal=bool(journal), without_cause=without_cause), holes


def _how_lost(truncations: list[Truncated], *, has_journal: bool, without_cause: int) -> str:
    if not truncations:
        return "no replica truncated its log"
    sources = " and ".join(sorted({event.source.value for event in truncations}))
    how = f"acknowledged sends at the offsets that {len(truncations)} truncation(s) removed ({sources}), " + (
        "acknowledged after the append that was removed and before a later leader appended there"
        if has_journal
        else "answered for by a leader that was none any more"
        if sources == Source.WIRE
        else "acknowledged before the leader change that caused each, by the answers that proxies saw, or by time of "
        "death and probe"
    )
    if without_cause:
        how += f"; {without_cause} had no recorded leader change, their own time stands in"
    return how


def _touches(append: Appended, partition: int, first: int, end: int) -> bool:
    return append.partition == partition and append.base_offset < end and append.last_offset >= first


def _by_appends(
    appends: list[Appended], partition: int, first: int, end: int, epoch: int, saved: set[tuple[str, int, int]]
) -> list[Interval]:
    """The removed appends at [first, end), as intervals. Each has the time in which an answer must refer to it.

    An answer for an offset refers to the removed append if it came after that append and before a leader of a later
    epoch appended there. A leader that does not know yet that it was replaced (a zombie) may append after its successor
    did. Then all answers from that moment on come from the zombie.
    """
    found: list[Interval] = []
    later = [item for item in appends if item.leader_epoch > epoch]
    for item in appends:
        if item.leader_epoch != epoch or batch_key(item) in saved:
            continue
        low, high = max(first, item.base_offset), min(end, item.last_offset + 1)
        old_us = item.t_us
        marks = {low, high}
        for other in later:
            marks |= {mark for mark in (other.base_offset, other.last_offset + 1) if low < mark < high}
        edges = sorted(marks)
        for begin, stop in pairwise(edges):
            new_us = min(
                (other.t_us for other in later if other.base_offset <= begin <= other.last_offset),
                default=NEVER_US,
            )
            found.append(
                Interval(
                    kind="lost",
                    partition=partition,
                    from_offset=begin,
                    end_offset=stop,
                    after_us=old_us,
                    before_us=new_us if new_us > old_us else NEVER_US,
                )
            )
    return found


def _saved_elsewhere(journal: list[Appended], truncations: list[Truncated]) -> set[tuple[str, int, int]]:
    """Batches that the client sent twice and the broker appended twice, and of which one copy stayed."""
    return {
        batch_key(item)
        for item in journal
        if not any(
            item.leader_epoch == event.leader_epoch
            and _touches(item, event.partition, event.to_offset, event.from_offset)
            for event in truncations
        )
    }


def _beyond_the_next_leader(event: Truncated, leader_changes: Iterable[BecameLeader | LeaderSeen]) -> Truncated:
    """If a disk loses data, only records beyond the log end of the next leader are lost. It has all others."""
    if event.source is not Source.DISK:
        return event
    later = [
        change
        for change in leader_changes
        if isinstance(change, BecameLeader) and change.partition == event.partition and change.t_us > event.t_us
    ]
    first = min(later, key=lambda change: change.t_us, default=None)
    taken_up_from = event.from_offset if first is None else first.log_end_offset or 0
    return replace(event, to_offset=min(max(event.to_offset, taken_up_from), event.from_offset))


def leader_change_us(
    leader_changes: Iterable[BecameLeader | LeaderSeen], partition: int, epoch_of_records: int
) -> int | None:
    """When the first leader of an epoch after that of the truncated records took over, by the journal or the probe."""
    times = [
        change.t_us
        for change in leader_changes
        if change.partition == partition and change.leader_epoch > epoch_of_records
    ]
    return min(times, default=None)


# Duplicates: a batch that was appended, whose response was withheld, and which was appended again.


def _also(dropped: Sequence[WireExchange]) -> str:
    """Why there may be more records than the fault counts: a client that loses a response also loses its connection."""
    connections = len({(line.proxy, line.connection) for line in dropped if line.outcome is WireOutcome.DROPPED})
    behind = sum(line.outcome is WireOutcome.DROPPED for line in dropped) - connections
    if behind <= 0:
        return ""
    return (
        f": {connections} connection(s) ended with a dropped response, and {behind} more request(s) were in flight "
        "behind those"
    )


def _left_twice(cell: Cell, line: WireExchange, appended_at: set[int]) -> Interval | None:
    """The records of a batch that was appended again, as far as both copies are still in the log. `appended_at`: all
    base offsets of the batch, if they are known. None: there are no such records."""
    start = start_offsets(cell).get(line.partition, 0)
    others = appended_at - {line.base_offset}
    removed = min((max(0, start - offset) for offset in others), default=0)
    if removed >= line.records:
        return None
    return Interval(
        kind="duplicated",
        partition=line.partition,
        from_offset=line.base_offset + removed,
        end_offset=line.base_offset + line.records,
    )


def _duplicated(cell: Cell) -> tuple[list[Interval], str]:
    wire = wire_lines(cell)
    dropped = [line for line in wire if line.outcome in WITHHELD and succeeded(line)]
    if not dropped:
        return [], "no response to an appended Produce request was withheld"
    journal = appended(cell)
    appended_at: dict[tuple[int, int], set[int]] = defaultdict(set)
    for event in journal:
        appended_at[event.partition, event.crc].add(event.base_offset)
    successes: dict[tuple[str, int, int], set[int]] = defaultdict(set)
    attempts: dict[tuple[str, int, int], int] = defaultdict(int)
    for line in wire:
        attempts[batch_key(line)] += 1
        if succeeded(line):
            successes[batch_key(line)].add(line.base_offset)
    idempotent = is_idempotent(cell)
    intervals: list[Interval] = []
    for line in dropped:
        key = batch_key(line)
        if journal and (attempts[key] > 1 or len(appended_at[(key[1], key[2])]) > 1):
            again = len(appended_at[(key[1], key[2])]) > 1
        elif attempts[key] > 1:
            # A broker that recognised the retry answers with the offset of the first append.
            again = len(successes[key]) > 1
        else:
            # The retry came after the wire log had ended, or its records came back in other batches (librdkafka without
            # idempotence puts them back into its queue). Then they cannot be recognised.
            again = not idempotent
        places = appended_at[(key[1], key[2])] | successes[key]
        if again and (left := _left_twice(cell, line, places)) is not None:
            intervals.append(left)
    refused = sum(event.kind is ClusterKind.DUPLICATE_SEQUENCE for event in events_of(cell, SequenceRefused))
    how = f"batches of {len(dropped)} Produce request(s) whose response was withheld after the append (wire"
    how += f"{_also(dropped)})"
    how += (
        ", of which the journal shows the same CRC at two offsets, or whose records came back in other batches"
        if journal
        else ", unless the retry was answered with the first offset"
    )
    if refused:
        how += f"; the brokers recognised {refused} repeated sequence(s) and appended none of them"
    return intervals, how
