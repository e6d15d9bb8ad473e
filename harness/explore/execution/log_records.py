"""Records of a trial's log, with what became of their transactions.

Shown by tests/harness/test_harness_explore_logs.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from broker.door.batches import RawBatch
from harness.explore.trial.history import Logged
from harness.fixtures.committed import Record, RecordStatus, records_of


class ReadsLog(Protocol):
    """What of TopicLogReader is used."""

    def end_offset(self, partition: int) -> int: ...

    def batches(self, partition: int, to_offset: int, *, from_offset: int | None = None) -> Iterator[RawBatch]: ...


def logged_of(reader: ReadsLog, partition: int, start: int, *, number: int, end: int | None = None) -> list[Logged]:
    """Of one partition, from `start` on, to `end` or to the last one. `number`: as the trial numbers it (topics.py).
    What is open now stays so: its client did not end it."""
    return [
        Logged(
            partition=number,
            offset=record.offset,
            value=record.value or record.key,
            is_aborted=record.status is not RecordStatus.COMMITTED,
        )
        for record in _records(reader, partition, start)
        if end is None or record.offset < end
    ]


def deleted_of(reader: ReadsLog, partition: int, start: int, end: int, *, number: int) -> list[Logged]:
    """What is about to be deleted. The marker that says what becomes of it may be behind `end`, or not in the log yet:
    who has got such a record is not accused."""
    return [
        Logged(
            partition=number,
            offset=record.offset,
            value=record.value or record.key,
            is_aborted=record.status is RecordStatus.ABORTED,
            is_deleted=True,
        )
        for record in _records(reader, partition, start)
        if record.offset < end
    ]


def _records(reader: ReadsLog, partition: int, start: int) -> Iterator[Record]:
    until = reader.end_offset(partition)
    for record in records_of(partition, reader.batches(partition, until, from_offset=start)):
        if record.status is not RecordStatus.MARKER and start <= record.offset < until:
            yield record
