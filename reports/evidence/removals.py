"""Which records of a cell may be gone lawfully: by retention, by DeleteRecords or by compaction.

Pure. It looks at settings, journals and where the final read says that each log begins, never at which records are
missing. The queries join the offsets with the acknowledgements and the deliveries.

The reference broker writes down before it deletes anything. So here every record is judged by itself:

- A segment that retention deleted was too much if the log still held retention.bytes without it. That is counted by the
  bytes that the broker told, and of the last one by the bytes that the final read found.
- Else it must have been too old: a record that was sent less than retention.ms before is not gone lawfully.
- What a client deleted is gone up to the offset that it asked for.

A compaction keeps the last record of each key. What the journal tells that it went over is gone lawfully, record by
record, if the final log has a newer record of the same key in that partition (`needs_newer`). Which key a record had,
`record_keys.py` knows or does not know; then all that is gone is in doubt.

Other brokers write no journal. Their log start is lawful if the bytes that are left, or the age of the records, fit the
settings. Anything else may have been deleted by somebody. Then nobody can tell, and it is in doubt.
Shown by tests/reports/test_reports_removals.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from reports.evidence.record_keys import record_keys
from reports.evidence.topic_events import NEVER_US, deletions, last_life
from reports.read.cell import Cell
from runlog.records.cluster import OtherClusterEvent
from runlog.records.cluster_kinds import Source
from runlog.records.fault import FaultPhase
from runlog.records.partition import CompactionBegun, LogStartAdvance, Truncated

RETENTION_MS: Final = 604_800_000  # Kafka's default, a week
# A record's timestamp has whole milliseconds of the client's wall clock, and retention compares it with the broker's.
CLOCK_SLACK_US: Final = 1_000_000
DELETE_RECORDS: Final = "delete_records"
COMPACTION: Final = "compaction"
_OPERATORS: Final = "retention.bytes and retention.ms do not explain it; somebody may have deleted records"


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Offsets [from_offset, end_offset) of a partition, of records that were sent before `sent_before_us`. If such a
    record is gone, that is lawful, or if not `is_known`, nobody can tell whether it is."""

    partition: int
    from_offset: int
    end_offset: int
    sent_before_us: int = NEVER_US
    is_known: bool = True
    needs_newer: bool = False  # lawful only if the final log has a newer record of the same key there


@dataclass(frozen=True, slots=True, kw_only=True)
class Removals:
    found: tuple[Removal, ...] = ()
    causes: tuple[str, ...] = ()  # what removed records lawfully, in words
    doubts: tuple[str, ...] = ()  # why it is not known of others, in words
    beyond: tuple[str, ...] = ()  # logs that begin above what settings and journals explain, in words


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limits:
    """The settings under which most may be deleted, of all that were in force in the cell. None: no limit."""

    deletes: bool
    compacts: bool
    bytes: int | None
    ms: int | None


def removals(cell: Cell) -> Removals:
    starts = start_offsets(cell)
    limits = _limits(cell)
    has_journal = any(
        not isinstance(event, OtherClusterEvent) and event.source is Source.JOURNAL for event in cell.cluster_events
    )
    found: list[Removal] = []
    causes: set[str] = set()
    doubts: list[str] = []
    beyond: list[str] = []
    for partition, start in sorted(starts.items()):
        if start <= 0:
            continue
        own = list(_asked_for(cell, partition, start, causes))
        if has_journal:
            own += _by_journal(cell, partition, start, limits, causes)
            own = _joined(own)
            if (explained := _explained(own)) < start:
                beyond.append(
                    f"partition {partition} begins at offset {start}; what settings and journals explain ends at "
                    f"{explained}"
                )
        elif _explained(_joined(own)) < start:
            own += _by_settings(cell, partition, start, limits, causes, doubts)
        found += own
    if limits.compacts and cell.record.outcome.final_read.end_offsets:
        found += _by_compaction(cell, has_journal, causes, doubts)
    return Removals(
        found=tuple(found), causes=tuple(sorted(causes)), doubts=tuple(dict.fromkeys(doubts)), beyond=tuple(beyond)
    )


def is_compacted(cell: Cell) -> bool:
    """Whether a compaction may have removed records, at some time of the cell."""
    return _limits(cell).compacts


def start_offsets(cell: Cell) -> Mapping[int, int]:
    """Where the final log begins, by partition. Older runs know it only from whoever deleted records."""
    told = cell.record.outcome.final_read.start_offsets
    return {item.partition: item.end_offset for item in deletions(cell)} if told is None else told


def _asked_for(cell: Cell, partition: int, start: int, causes: set[str]) -> Iterable[Removal]:
    for item in deletions(cell):
        if item.partition == partition:
            causes.add("DeleteRecords")
            yield Removal(partition=partition, from_offset=0, end_offset=min(start, item.end_offset))


def _by_journal(cell: Cell, partition: int, start: int, limits: _Limits, causes: set[str]) -> list[Removal]:
    events = last_life(cell).cluster_events
    was_cut = any(isinstance(event, Truncated) and _partition_of(cell, event) == partition for event in events)
    kept_bytes = (cell.record.outcome.final_read.size_bytes or {}).get(partition)
    found: list[Removal] = []
    for event in events:
        if not isinstance(event, LogStartAdvance) or _partition_of(cell, event) != partition:
            continue
        if event.cause == DELETE_RECORDS:
            causes.add("DeleteRecords")
            found.append(_of(partition, event.from_offset, event.log_start_offset, start))
            continue
        first = event.from_offset
        for end_offset, told_bytes in event.expired:
            # The log has only grown since then, unless something else took records away.
            is_last = end_offset == start and not was_cut and not limits.compacts
            left_bytes = told_bytes if kept_bytes is None or not is_last else min(told_bytes, kept_bytes)
            if limits.deletes and limits.bytes is not None and left_bytes >= limits.bytes:
                causes.add(f"retention.bytes={limits.bytes}")
                found.append(_of(partition, first, end_offset, start))
            elif (young_us := _young_us(cell, limits, event.t_us)) > 0:
                causes.add(f"retention.ms={limits.ms}")
                found.append(_of(partition, first, end_offset, start, sent_before_us=young_us))
            first = end_offset
    return [item for item in found if item.from_offset < item.end_offset]


def _of(partition: int, first: int, end: int, start: int, *, sent_before_us: int = NEVER_US) -> Removal:
    """No more than what lies below the start of the final log: a broker's copy of the log may begin higher."""
    return Removal(partition=partition, from_offset=first, end_offset=min(end, start), sent_before_us=sent_before_us)


def _by_settings(
    cell: Cell, partition: int, start: int, limits: _Limits, causes: set[str], doubts: list[str]
) -> list[Removal]:
    kept_bytes = (cell.record.outcome.final_read.size_bytes or {}).get(partition)
    whole = Removal(partition=partition, from_offset=0, end_offset=start)
    if limits.deletes and limits.bytes is not None and kept_bytes is not None and kept_bytes >= limits.bytes:
        causes.add(f"retention.bytes={limits.bytes}")
        return [whole]
    doubts.append(f"partition {partition} begins at offset {start}, and there is no journal: {_OPERATORS}")
    doubtful = replace(whole, is_known=False)
    young_us = _young_us(cell, limits, cell.record.outcome.ended_us or 0)
    if young_us <= 0:
        return [doubtful]
    causes.add(f"retention.ms={limits.ms}")
    return [replace(whole, sent_before_us=young_us), doubtful]


def _by_compaction(cell: Cell, has_journal: bool, causes: set[str], doubts: list[str]) -> list[Removal]:
    ends = cell.record.outcome.final_read.end_offsets
    if record_keys(cell) is None:
        doubts.append("cleanup.policy has compact, and the keys of records that are gone are not known")
        return [Removal(partition=one, from_offset=0, end_offset=end, is_known=False) for one, end in ends.items()]
    if not has_journal:
        doubts.append(
            "cleanup.policy has compact, and there is no journal: whether it was the compaction that removed records "
            "with a newer one of the same key is not known"
        )
        return [
            Removal(partition=one, from_offset=0, end_offset=end, is_known=False, needs_newer=True)
            for one, end in ends.items()
        ]
    reached, cut = _compacted(cell)
    if reached:
        causes.add(COMPACTION)
    doubts.extend(
        f"partition {partition}: a broker truncated its log below offset {end}, after it had compacted the log up to "
        "there. For what it removed, the newer records may have been truncated"
        for partition, end in sorted(cut.items())
    )
    return [
        *(
            Removal(partition=partition, from_offset=0, end_offset=min(end, ends[partition]), needs_newer=True)
            for partition, end in sorted(reached.items())
            if partition in ends
        ),
        *(
            Removal(partition=partition, from_offset=0, end_offset=min(end, ends[partition]), is_known=False)
            for partition, end in sorted(cut.items())
            if partition in ends
        ),
    ]


def _compacted(cell: Cell) -> tuple[Mapping[int, int], Mapping[int, int]]:
    """By partition: the offset up to which a broker compacted its log, and the same of brokers that truncated their
    logs below it afterwards. That takes an unclean election, or a disk that lost what was not synced."""
    reached: dict[int, int] = {}
    cut: dict[int, int] = {}
    own: dict[tuple[int, int], int] = {}  # The key is (broker, partition).
    events = [item for item in last_life(cell).cluster_events if isinstance(item, CompactionBegun | Truncated)]
    for event in sorted(events, key=lambda event: event.t_us):
        partition = _partition_of(cell, event)
        if partition is None:
            continue
        end = own.get((event.broker, partition), 0)
        if isinstance(event, CompactionBegun):
            own[event.broker, partition] = max(end, event.end_offset)
            reached[partition] = max(reached.get(partition, 0), event.end_offset)
        elif event.to_offset < end:
            cut[partition] = max(cut.get(partition, 0), end)
    return reached, cut


def _young_us(cell: Cell, limits: _Limits, at_us: int) -> int:
    """A record sent from this time on was too young for retention.ms at `at_us`. 0: all records of the run were."""
    if not limits.deletes or limits.ms is None:
        return 0
    return max(0, at_us - limits.ms * 1000 + CLOCK_SLACK_US + _clocks_off_us(cell))


def _joined(items: Sequence[Removal]) -> list[Removal]:
    """Neighbours and overlaps of one partition as one, for each time."""
    joined: list[Removal] = []
    for item in sorted(items, key=lambda item: (item.sent_before_us, item.from_offset)):
        last = joined[-1] if joined else None
        is_alike = last is not None and last.sent_before_us == item.sent_before_us
        if last is not None and is_alike and item.from_offset <= last.end_offset:
            joined[-1] = replace(last, end_offset=max(last.end_offset, item.end_offset))
        else:
            joined.append(item)
    return joined


def _explained(items: Sequence[Removal]) -> int:
    """The offset up to which there is no gap between what is explained."""
    reached = 0
    for item in sorted(items, key=lambda item: item.from_offset):
        if item.from_offset > reached:
            break
        reached = max(reached, item.end_offset)
    return reached


def _partition_of(cell: Cell, event: LogStartAdvance | Truncated | CompactionBegun) -> int | None:
    """The number that it has in the run log, where the topics of a cell follow one another. None: no topic of the cell
    has this name."""
    name, planned = cell.record.topic.name, cell.record.topic.partitions or 0
    if name is None or event.topic is None or event.topic == name:
        return event.partition
    prefix, _, number = event.topic.rpartition("-t")
    is_own = prefix == name and number.isdigit() and 0 < int(number) < cell.record.workload.topics
    return int(number) * planned + event.partition if is_own else None


def _limits(cell: Cell) -> _Limits:
    policies = " ".join(_values(cell, "cleanup.policy", "log.cleanup.policy", "delete"))
    sizes = _numbers(_values(cell, "retention.bytes", "log.retention.bytes", "-1"))
    times = _numbers(_values(cell, "retention.ms", "log.retention.ms", str(RETENTION_MS)))
    return _Limits(
        deletes="delete" in policies,
        compacts="compact" in policies,
        bytes=min((size for size in sizes if size >= 0), default=None),
        ms=min((time for time in times if time >= 0), default=None),
    )


def _values(cell: Cell, name: str, broker_name: str, default: str) -> list[str]:
    """All values that a topic's setting had in the cell: at its beginning, and those that a fault set."""
    effective = cell.record.outcome.effective
    topic = {**cell.record.topic.config, **effective.topic}
    values = [topic.get(name, effective.broker.get(broker_name, default))]
    for line in cell.fault_lines:
        if line.kind == "topic_setting" and line.phase is FaultPhase.PROVED and line.detail.get("setting") == name:
            told = line.detail.get("told")
            values += [str(value) for value in told.values()] if isinstance(told, Mapping) else []
    return [value.strip().lower() for value in values]


def _numbers(values: Iterable[str]) -> list[int]:
    return [int(value) for value in values if value.lstrip("-").isdigit()]


def _clocks_off_us(cell: Cell) -> int:
    """By how much a fault had set the clock of a broker wrong."""
    steps = [
        abs(int(offset_s))
        for line in cell.fault_lines
        if line.kind == "clock_jump" and isinstance(offset_s := line.detail.get("offset_s"), int)
    ]
    return max(steps, default=0) * 1_000_000
