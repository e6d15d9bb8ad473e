"""What a share group did with each record (KIP-932). Pure.

It is read from the history of the group's members, and from the harness's last look at the group. A record is done when
a member's acceptance or rejection was confirmed, or when it was archived after the last delivery that is allowed. A
record that comes again after a release, a lock that timed out, a dead member or an acknowledgement without an answer is
lawful. Order is not promised.

What nobody can know stays unknown: the acceptance of a member that died, or an answer that did not come. Such a record
counts neither as lost nor as accepted. One thing is not in the history: a delivery that a client got and dropped before
its application saw it, because its session was lost. A limit of deliveries that is not too low keeps these from
archiving a record unseen. Shown by tests/reports/test_reports_share_groups.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from reports.read.cell import Cell
from runlog.records.history import (
    Acknowledged,
    AcknowledgementKind,
    HistoryKind,
    HistoryLine,
    MemberEvent,
    ShareAcknowledged,
    ShareDelivered,
    ShareEnd,
)
from runlog.records.workload import EARLIEST, SHARE

DELIVERIES_MAX: Final = 5  # group.share.delivery.count.limit of Kafka
LIMIT_OF_GROUP, LIMIT_OF_BROKER = "share.delivery.count.limit", "group.share.delivery.count.limit"
_FINAL: Final = (AcknowledgementKind.ACCEPT, AcknowledgementKind.REJECT)


class Fate(Enum):
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    ARCHIVED = "archived"  # delivered as often as the group allows, and nobody accepted or rejected it
    UNKNOWN = "unknown"  # done, but who did it is not known: an answer is missing, or its member died
    OPEN = "open"  # the group was not done with it at the end, or nobody could ask the group
    REMOVED = "removed"  # retention or DeleteRecords took it before the group was done with it
    LOST = "lost"  # done, although nobody accepted or rejected it, and more deliveries were allowed


@dataclass(slots=True, kw_only=True)
class _Record:
    deliveries: int = 0
    count_max: int = 0  # the highest delivery count
    asked_us_last: int = -(2**62)  # the latest of the times from which on the broker can have given it to a member
    said: set[tuple[AcknowledgementKind, Acknowledged]] = field(default_factory=set)
    done_us: int | None = None  # when a member first learnt that its acceptance or rejection counts
    starts: set[tuple[str, int]] = field(
        default_factory=set
    )  # (member, incarnation) that have not said what became of it


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStory:
    """The records of one share group."""

    group: str
    fates: Mapping[Fate, int]
    again: int  # records that were delivered more than once
    deliveries: int
    lost: tuple[str, ...]
    after_done: tuple[str, ...]  # delivered after their acceptance or rejection was confirmed
    over_limit: tuple[str, ...]
    is_end_known: bool  # the group could be asked where it stands in every partition


def share_stories(cell: Cell) -> list[ShareStory]:
    """One for each reader that is a share group, in their order."""
    readers = [reader for reader in cell.record.workload.readers if reader.mode == SHARE]
    stories = []
    for reader in readers:
        group = f"{cell.record.topic.name}-{reader.name}"
        lines = [line for line in cell.history_lines if getattr(line, "group", "") == group]
        broker = cell.record.outcome.effective.broker.get(LIMIT_OF_BROKER, str(DELIVERIES_MAX))
        limit = int(reader.group_settings.get(LIMIT_OF_GROUP, broker))
        first = 0 if reader.start == EARLIEST else None
        read = cell.record.outcome.final_read
        starts = read.start_offsets or {}
        stories.append(_story(group, lines, read.end_offsets, starts, limit=limit, first=first))
    return stories


def share_findings(cell: Cell) -> dict[str, list[str]]:
    stories = share_stories(cell)
    return {
        "share_lost": [case for story in stories for case in story.lost],
        "share_after_done": [case for story in stories for case in story.after_done],
        "share_over_limit": [case for story in stories for case in story.over_limit],
    }


def _story(
    group: str,
    lines: Sequence[HistoryLine],
    end_offsets: Mapping[int, int],
    starts: Mapping[int, int],
    *,
    limit: int,
    first: int | None,
) -> ShareStory:
    """`first`: the offset at which the group begins. None: at the end of the log as it was then, so that only delivered
    records count."""
    records = _records(lines)
    ended = _ended_badly(lines)
    ends = {line.partition: line for line in lines if isinstance(line, ShareEnd)}
    fates = dict.fromkeys(Fate, 0)
    lost: list[str] = []
    wanted = dict.fromkeys(records) if first is None else dict.fromkeys((*_all(end_offsets, first), *records))
    for place in wanted:
        record, end = records.get(place, _Record()), ends.get(place[0])
        is_done = end is not None and (end.lag == 0 or place[1] < end.start_offset)
        fate = fate_of(record, is_done=is_done, limit=limit, ended=ended)
        if fate is Fate.LOST and place[1] < starts.get(place[0], 0):
            fate = Fate.REMOVED  # a group moves on to the log's start; whether that was lawful is said of the log
        fates[fate] += 1
        if fate is Fate.LOST:
            times = f"{record.deliveries} deliveries" if record.deliveries else "no delivery"
            lost.append(f"group {group} partition {place[0]} offset {place[1]}: {times}, nobody accepted it")
    after = [
        f"group {group} partition {partition} offset {offset}: delivered again after it was done"
        for (partition, offset), record in records.items()
        if record.done_us is not None and record.asked_us_last > record.done_us
    ]
    over = [
        f"group {group} partition {partition} offset {offset}: delivery {record.count_max}, {limit} are allowed"
        for (partition, offset), record in records.items()
        if record.count_max > limit
    ]
    return ShareStory(
        group=group,
        fates=fates,
        again=sum(record.deliveries > 1 for record in records.values()),
        deliveries=sum(record.deliveries for record in records.values()),
        lost=tuple(lost),
        after_done=tuple(after),
        over_limit=tuple(over),
        is_end_known=all(
            partition in ends and (ends[partition].lag is not None or ends[partition].start_offset >= end)
            for partition, end in end_offsets.items()
            if end
        ),
    )


def fate_of(record: _Record, *, is_done: bool, limit: int, ended: set[tuple[str, int]]) -> Fate:
    """`is_done`: as the group's coordinator told it at the end. `ended`: starts of members that did not leave. Each of
    these may have had a delivery of the record that it did not write down any more."""
    for kind, fate in zip(_FINAL, (Fate.ACCEPTED, Fate.REJECTED), strict=True):
        if (kind, Acknowledged.CONFIRMED) in record.said:
            return fate
    if not is_done:
        return Fate.OPEN
    if any((kind, Acknowledged.UNKNOWN) in record.said for kind in _FINAL) or record.starts & ended:
        return Fate.UNKNOWN
    if record.count_max >= limit:
        return Fate.ARCHIVED
    return Fate.UNKNOWN if record.count_max + len(ended) >= limit else Fate.LOST


def _records(lines: Sequence[HistoryLine]) -> dict[tuple[int, int], _Record]:
    records: dict[tuple[int, int], _Record] = {}
    for line in lines:
        if isinstance(line, ShareDelivered):
            for first, last, count in line.ranges:
                for offset in range(first, last + 1):
                    record = records.setdefault((line.partition, offset), _Record())
                    record.deliveries += 1
                    record.count_max = max(record.count_max, count)
                    record.asked_us_last = max(record.asked_us_last, line.asked_us)
                    record.starts.add((line.member, line.incarnation))
        elif isinstance(line, ShareAcknowledged):
            for first, last in line.ranges:
                for offset in range(first, last + 1):
                    record = records.setdefault((line.partition, offset), _Record())
                    record.said.add((line.type, line.outcome))
                    record.starts.discard((line.member, line.incarnation))
                    if line.type in _FINAL and line.outcome is Acknowledged.CONFIRMED:
                        record.done_us = line.t_us if record.done_us is None else min(record.done_us, line.t_us)
    return records


def _ended_badly(lines: Sequence[HistoryLine]) -> set[tuple[str, int]]:
    """Starts of members that did not say that they left. They may have acknowledged what they did not tell."""
    of = [line for line in lines if isinstance(line, MemberEvent)]
    started = {(line.member, line.incarnation) for line in of if line.kind is HistoryKind.STARTED}
    return started - {(line.member, line.incarnation) for line in of if line.kind is HistoryKind.LEFT}


def _all(end_offsets: Mapping[int, int], first: int) -> Iterator[tuple[int, int]]:
    for partition, end in end_offsets.items():
        for offset in range(first, end):
            yield partition, offset


def sentences(story: ShareStory) -> list[str]:
    """What the group did, in plain words."""
    fates = story.fates
    total = sum(fates.values())
    parts = [f"{fates[Fate.ACCEPTED]} of {total} record(s) were accepted"]
    if fates[Fate.REJECTED]:
        parts.append(f"{fates[Fate.REJECTED]} were rejected")
    if fates[Fate.ARCHIVED]:
        parts.append(f"{fates[Fate.ARCHIVED]} were archived after the last delivery that is allowed")
    if fates[Fate.REMOVED]:
        parts.append(f"{fates[Fate.REMOVED]} were removed from the log before the group was done with them")
    if fates[Fate.UNKNOWN]:
        parts.append(f"{fates[Fate.UNKNOWN]} are done, and it is not known how: an answer is missing, or a member died")
    if fates[Fate.OPEN]:
        parts.append(f"{fates[Fate.OPEN]} were not done at the end")
    if fates[Fate.LOST]:
        parts.append(f"{fates[Fate.LOST]} were given up by the group although nobody accepted them")
    again = (
        f"; {story.again} came again, which is lawful after a release, a lock that timed out, a dead member or an "
        "answer that did not come"
        if story.again
        else "; none came again"
    )
    return [f"share group {story.group}: {', '.join(parts)}{again}"]
