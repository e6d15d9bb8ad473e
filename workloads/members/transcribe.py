"""Journals of members to the run log: rows of `recv` (of `audit` for readers of copies) and lines of `history.jsonl`.

Run after the members ended, however they ended; a second time gives the same. A position is where a member began in a
partition after it was assigned: the offset of the first record that it was given then.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from runlog.files.paths import cell_directory, events_path
from runlog.records.history import (
    Assigned,
    HistoryKind,
    HistoryLine,
    MemberEvent,
    OffsetCommitted,
    OtherHistory,
    Position,
    Revoked,
    ShareAcknowledged,
    ShareDelivered,
    ShareEnd,
    TransactionBegan,
    TransactionEnded,
)
from runlog.records.lines import HISTORY, MEMBER_JOURNAL, RecordWriter, own_lines
from runlog.records.member import MemberSpec
from runlog.records.member_journal import (
    CopyBegan,
    CopyEnded,
    JournalKind,
    MemberSaid,
    OffsetsCommitted,
    OtherJournalLine,
    PartitionsAssigned,
    PartitionsRevoked,
    RecordsDelivered,
    SharePolled,
)
from runlog.records.member_journal import ShareAcknowledged as ShareAcknowledgedLine
from runlog.records.member_journal import ShareEnd as ShareEndLine
from runlog.streams.parquet import write_part
from runlog.streams.payload import parse_fast
from runlog.streams.schema import ABSENT, AUDIT, RECV, Stream
from workloads.members.spec import parse_spec
from workloads.model import copy_topic

PART: Final = "members"
SHARE_ENDS: Final = "share-ends.jsonl"  # beside the journals
_Said = Literal[HistoryKind.STARTED, HistoryKind.LEFT, HistoryKind.PROBLEM, HistoryKind.RENEWED]
_SAID: Final[Mapping[JournalKind, _Said]] = {
    JournalKind.STARTED: HistoryKind.STARTED,
    JournalKind.LEFT: HistoryKind.LEFT,
    JournalKind.PROBLEM: HistoryKind.PROBLEM,
    JournalKind.RENEWED: HistoryKind.RENEWED,
}


def members_directory(run_dir: Path, cell_id: str) -> Path:
    """Specs and journals of the cell's members: MEMBER-INCARNATION.json and .jsonl."""
    return cell_directory(run_dir, cell_id) / "members"


@dataclass(slots=True, kw_only=True)
class _Rows:
    stream: Stream
    columns: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.columns = {column.name: [] for column in self.stream.columns}

    def add(self, **values: int) -> None:
        for name, column in self.columns.items():
            column.append(values[name])


def transcribe_cell(run_dir: Path, cell_id: str, *, topic: str, t0_monotonic_ns: int) -> int:
    """Returns the number of deliveries. Without members nothing is written."""
    directory = members_directory(run_dir, cell_id)
    specs = [parse_spec(path.read_text(encoding="utf-8")) for path in sorted(directory.glob("*.json"))]
    if not specs:
        return 0
    received, audited = _Rows(stream=RECV), _Rows(stream=AUDIT)
    history: list[HistoryLine] = []
    for spec in specs:
        rows = audited if spec.topic == copy_topic(topic) else received
        history += _transcribe(spec, rows, t0_monotonic_ns)
    history += _share_ends(directory, t0_monotonic_ns)
    for rows in (received, audited):
        if rows.columns["offset"]:
            write_part(run_dir, rows.stream, cell_id, rows.columns, part=PART)
    path = events_path(run_dir, cell_id, "history")
    path.unlink(missing_ok=True)
    with RecordWriter(path, HISTORY) as writer:
        for line in sorted(history, key=lambda line: line.t_us):
            writer.append(line)
    return len(received.columns["offset"]) + len(audited.columns["offset"])


def _transcribe(spec: MemberSpec, rows: _Rows, t0_ns: int) -> Iterator[HistoryLine]:
    """Adds the member's deliveries to `rows` and yields its history."""
    who: dict[str, Any] = {"group": spec.group_id, "member": spec.member, "incarnation": spec.incarnation}
    generation = ABSENT
    fresh: set[int] = set()  # assigned, and nothing was given of it yet
    for line in own_lines(Path(spec.journal), MEMBER_JOURNAL):
        at: dict[str, Any] = {"t_us": (line.mono_ns - t0_ns) // 1_000, **who}
        match line:
            case PartitionsAssigned():
                generation = line.generation
                partitions = tuple(partition for _, partition in line.partitions)
                fresh |= set(partitions)
                yield Assigned(**at, generation=generation, partitions=partitions)
            case PartitionsRevoked():
                yield Revoked(**at, partitions=tuple(partition for _, partition in line.partitions))
            case OffsetsCommitted():
                for _, partition, offset in line.offsets:
                    yield OffsetCommitted(**at, partition=partition, offset=offset)
            case RecordsDelivered():
                polled_us = (line.polled_ns - t0_ns) // 1_000
                for _, partition, offset, _at_ms, text in line.records:
                    if partition in fresh:
                        fresh.discard(partition)
                        yield Position(**{**at, "t_us": polled_us}, partition=partition, offset=offset)
                    _deliver(spec, rows, generation, partition, offset, polled_us, base64.b64decode(text), t0_ns)
            case CopyEnded():
                asked_us = (line.asked_ns - t0_ns) // 1_000
                yield TransactionEnded(
                    **at, copier=spec.consumer, number=line.number, outcome=line.outcome, asked_us=asked_us,
                    reason=line.reason,
                )  # fmt: skip
            case CopyBegan():
                yield TransactionBegan(**at, copier=spec.consumer, number=line.number, records=line.records)
            case SharePolled():
                yield from _share_delivered(line, who, t0_ns)
            case ShareAcknowledgedLine():
                yield ShareAcknowledged(
                    **at, partition=line.partition, type=line.type, outcome=line.outcome,
                    ranges=tuple((first, last) for first, last, _ in _ranges([(each, 0) for each in line.offsets])),
                    reason=line.reason,
                )  # fmt: skip
            case ShareEndLine():
                pass  # It is the harness's, in a file of its own.
            case MemberSaid():
                yield MemberEvent(**at, kind=_SAID[line.kind], message=line.message, reason=line.reason)
            case OtherJournalLine():
                yield OtherHistory(**at, kind=line.kind, more=line.more)


def _share_delivered(line: SharePolled, who: Mapping[str, Any], t0_ns: int) -> Iterator[ShareDelivered]:
    by_partition: dict[int, list[tuple[int, int]]] = {}
    for _, partition, offset, count in line.records:
        by_partition.setdefault(partition, []).append((offset, count))
    for partition, given in by_partition.items():
        yield ShareDelivered(
            **who,
            t_us=(line.polled_ns - t0_ns) // 1_000,
            asked_us=(line.asked_ns - t0_ns) // 1_000,
            partition=partition,
            ranges=tuple(_ranges(given)),
        )


def _ranges(given: Iterable[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """(first, last, count) of offsets that follow one another with equal counts."""
    found: list[tuple[int, int, int]] = []
    for offset, count in sorted(given):
        if found and (found[-1][1] + 1, found[-1][2]) == (offset, count):
            found[-1] = (found[-1][0], offset, count)
        else:
            found.append((offset, offset, count))
    return found


def _share_ends(directory: Path, t0_ns: int) -> Iterator[ShareEnd]:
    """The last look at each share partition counts."""
    last = {
        (line.group, line.partition): line
        for line in own_lines(directory / SHARE_ENDS, MEMBER_JOURNAL)
        if isinstance(line, ShareEndLine)
    }
    for line in last.values():
        yield ShareEnd(
            t_us=(line.mono_ns - t0_ns) // 1_000,
            group=line.group,
            partition=line.partition,
            start_offset=line.start_offset,
            lag=line.lag,
        )


def _deliver(
    spec: MemberSpec,
    rows: _Rows,
    generation: int,
    partition: int,
    offset: int,
    polled_us: int,
    value: bytes,
    t0_ns: int,
) -> None:
    parsed = parse_fast(value)
    producer, incarnation, seq, intended_ns, crc_ok = parsed or (ABSENT, ABSENT, ABSENT, t0_ns, False)
    rows.add(
        consumer=spec.consumer,
        generation=generation,
        partition=partition,
        offset=offset,
        producer=producer,
        incarnation=incarnation,
        seq=seq,
        intended_us=(intended_ns - t0_ns) // 1_000,
        polled_us=polled_us,
        crc_ok=int(crc_ok),
        appended_us=ABSENT,
        reader=spec.reader,
    )
