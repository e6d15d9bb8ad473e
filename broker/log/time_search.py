"""Finds records by their time, in steps. Whoever asks may do other work between two steps.

Owns: how much one step may do, and which errors a look at records can have. A step reads so many headers of batches at
most, or unpacks one batch and walks its records without their keys, values and headers. The log may change between two
steps, so only an offset is kept from one step to the next. Shown by tests/broker_log/test_log_time_search.py.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TypeAlias, TypeVar

from broker.log.damage import unreadable
from broker.log.errors import UnreadableBatchError
from broker.log.segments import Segments
from broker.wire.errors import CorruptBatchError
from broker.wire.record_check import RECORDS_MAX, TIME_MAX, TIME_MIN, record_heads
from broker.wire.record_filter import body_of
from broker.wire.records import RawBatch

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]  # each step ends with a yield; the result comes after the last one
TimeAndOffset: TypeAlias = tuple[int, int]

HEADERS_PER_STEP = 1_000  # about 3 ms
# As many as Produce accepts in a batch, so that the records of such a batch are walked in one step (about 35 ms), and
# what they were unpacked to is freed before other work is done.
RECORDS_PER_STEP = RECORDS_MAX


def first_at_or_after(
    segments: Callable[[], Segments], timestamp_ms: int, log_start_offset: Callable[[], int]
) -> Steps[TimeAndOffset | None]:
    """(timestamp, offset) of the first readable record at or after `timestamp_ms`, or None.

    Raises UnreadableBatchError at a batch that a client wrote so that nobody can read it, LogCorruptError at one that
    the disk has changed, OSError.
    """
    offset: int | None = log_start_offset()
    while offset is not None:
        offset = max(offset, log_start_offset())
        batch, offset = _next_reaching(segments(), timestamp_ms, offset)
        if batch is not None:
            found = yield from _first_in(batch, timestamp_ms, log_start_offset())
            if found is not None:
                return found
        yield
    return None


def largest_timestamp(segments: Callable[[], Segments], log_start_offset: int) -> Steps[int]:
    """The largest timestamp of all readable records; -1 if there is none. It raises the same errors."""
    largest, offset = -1, log_start_offset
    while True:
        segment = segments().from_offset(offset)[0]
        if segment.base_offset >= log_start_offset or offset >= segment.next_offset:
            break
        # The log begins within this segment, and its largest timestamp may be that of a deleted record.
        position = segment.position_of(offset)
        offset = segment.next_offset
        for number, batch in enumerate(segment.batches(position, bodies=False), start=1):
            header = batch.header
            if header.base_offset >= log_start_offset:
                largest = max(largest, header.max_timestamp)
            elif header.max_timestamp > largest:
                times = _times_in(segment.whole(batch))
                largest = max(largest, max((time for time, at in times if at >= log_start_offset), default=-1))
            if number == HEADERS_PER_STEP:
                offset = header.next_offset
                break
        yield
    later = (segment.max_timestamp for segment in segments() if segment.base_offset >= log_start_offset)
    return max(largest, max(later, default=-1))


def _next_reaching(segments: Segments, timestamp_ms: int, offset: int) -> tuple[RawBatch | None, int | None]:
    """The next batch, from the one that holds `offset` on, whose header says that a record reaches this time, and the
    offset from which to look on. Instead of the batch None: there is none in this step; of the offset: the log ends."""
    left = HEADERS_PER_STEP
    for segment in segments.from_offset(offset):
        for batch in segment.heads_from(timestamp_ms, offset):
            if batch.header.max_timestamp >= timestamp_ms:
                return segment.whole(batch), batch.header.next_offset
            left -= 1
            if not left:
                return None, batch.header.next_offset
    return None, None


def _first_in(batch: RawBatch, timestamp_ms: int, from_offset: int) -> Steps[TimeAndOffset | None]:
    for number, (time, offset) in enumerate(_times_in(batch), start=1):
        if time >= timestamp_ms and offset >= from_offset:
            if not TIME_MIN <= time <= TIME_MAX:
                raise UnreadableBatchError(f"a record with the timestamp {time}", offset=batch.header.base_offset)
            return time, offset
        if number % RECORDS_PER_STEP == 0:
            yield
    return None


def _times_in(batch: RawBatch) -> Iterator[TimeAndOffset]:
    """(timestamp, offset) of each record. If the records are not what the header says, the CRC tells whose fault it is:
    if it is right, the batch was written like this."""
    header = batch.header
    try:
        if header.has_log_append_time:
            for _, delta, _ in record_heads(body_of(batch), header.record_count):
                yield header.max_timestamp, header.base_offset + delta
        else:
            for time, delta, _ in record_heads(body_of(batch), header.record_count):
                yield header.base_timestamp + time, header.base_offset + delta
    except CorruptBatchError as error:
        raise unreadable(batch, error) from error
