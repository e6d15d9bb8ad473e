"""Journals of members to the run log: rows of `recv` (of `audit` for readers of copies) and lines of `history.jsonl`.

Run after the members ended, however they ended; a second time gives the same. A position is where a member began in a
partition after it was assigned: the offset of the first record that it was given then.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from runlog.files.json_lines import Event, read_jsonl
from runlog.files.paths import cell_directory, events_path
from runlog.records.history import (
    Assigned,
    HistoryLine,
    OffsetCommitted,
    Position,
    Revoked,
    TransactionBegan,
    TransactionEnded,
    TransactionOutcome,
)
from runlog.records.lines import HISTORY, RecordWriter
from runlog.streams.parquet import write_part
from runlog.streams.payload import parse_fast
from runlog.streams.schema import ABSENT, AUDIT, RECV, Stream
from workloads.members.spec import MemberSpec
from workloads.model import copy_topic

PART: Final = "members"


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
    specs = [MemberSpec(**json.loads(path.read_text(encoding="utf-8"))) for path in sorted(directory.glob("*.json"))]
    if not specs:
        return 0
    received, audited = _Rows(stream=RECV), _Rows(stream=AUDIT)
    history: list[HistoryLine] = []
    for spec in specs:
        rows = audited if spec.topic == copy_topic(topic) else received
        history += _transcribe(spec, rows, t0_monotonic_ns)
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
    for line in read_jsonl(Path(spec.journal)):
        at: dict[str, Any] = {"t_us": (int(line["mono_ns"]) - t0_ns) // 1_000, **who}
        match line["kind"]:
            case "assigned":
                generation = int(line["generation"])
                partitions = tuple(int(partition) for _, partition in line["partitions"])
                fresh |= set(partitions)
                yield Assigned(**at, generation=generation, partitions=partitions)
            case "revoked":
                yield Revoked(**at, partitions=tuple(int(partition) for _, partition in line["partitions"]))
            case "committed":
                for _, partition, offset in line["offsets"]:
                    yield OffsetCommitted(**at, partition=int(partition), offset=int(offset))
            case "delivered":
                for _, partition, offset, _at_ms, text in line["records"]:
                    if partition in fresh:
                        fresh.discard(partition)
                        polled_us = (int(line["polled_ns"]) - t0_ns) // 1_000
                        yield Position(**{**at, "t_us": polled_us}, partition=partition, offset=offset)
                    _deliver(spec, rows, line, generation, partition, offset, base64.b64decode(text), t0_ns)
            case "transaction":
                yield TransactionEnded(
                    **at,
                    copier=spec.consumer,
                    number=line["number"],
                    outcome=TransactionOutcome(line["outcome"]),
                    asked_us=(int(line["asked_ns"]) - t0_ns) // 1_000,
                    reason=line.get("reason", ""),
                )
            case "transaction_began":
                yield TransactionBegan(**at, copier=spec.consumer, number=line["number"], records=line["records"])
            case _:
                yield HISTORY.record({name: value for name, value in line.items() if name != "mono_ns"} | at)


def _deliver(
    spec: MemberSpec, rows: _Rows, line: Event, generation: int, partition: int, offset: int, value: bytes, t0_ns: int
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
        polled_us=(int(line["polled_ns"]) - t0_ns) // 1_000,
        crc_ok=int(crc_ok),
        appended_us=ABSENT,
        reader=spec.reader,
    )
