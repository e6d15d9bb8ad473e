"""One producer batch: the records of a partition that travel together, and what is known of their fate.

Owns: columns of records, the size estimate, the state of the attempts. The shell encodes a batch when it takes it for a
request. Records are appended under the producer's lock until the batch is closed. After that only the sender thread
uses the batch.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from broker.client.core.errors import KafkaError

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
BATCH_HEADER_BYTES = 61
NO_SEQUENCE = -1
SEQUENCE_MODULUS = 2**31  # after 2**31 - 1 comes sequence 0
UNKNOWN_OFFSET = -1
UNKNOWN_TIMESTAMP = -1


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class RecordMetadata(NamedTuple):
    """Where an acknowledged record is. `offset` is -1 with acks=0. It is also -1 for a duplicate whose offset the
    broker has forgotten.

    A named tuple, because one is made for each callback. A frozen dataclass costs four times as much.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    serialized_value_size_bytes: int


DeliveryCallback: TypeAlias = Callable[[RecordMetadata | None, KafkaError | None], None]


class BatchState(Enum):
    OPEN = "open"  # takes records
    QUEUED = "queued"  # closed; waits in its deque, for its first attempt or for a retry
    IN_FLIGHT = "in_flight"  # in a request that was handed to a connection
    DONE = "done"  # has an outcome


class Outcome(NamedTuple):
    """The end of a batch: exactly one of an offset or an error."""

    base_offset: int
    log_append_time_ms: int
    error: KafkaError | None


class Batch:
    """Invariant: `outcome` is set once; callbacks run once, after it is set; len(values) does not change after the
    state OPEN."""

    __slots__ = (
        "attempts",
        "base_sequence",
        "callbacks",
        "created_ms",
        "encoded",
        "first_error",
        "headers",
        "is_maybe_written",
        "is_reported",
        "is_transactional",
        "keys",
        "limit_bytes",
        "next_stamp_s",
        "outcome",
        "partition",
        "producer_epoch",
        "producer_id",
        "reserved_bytes",
        "retry_at_ms",
        "room_bytes",
        "stamps",
        "state",
        "takes_plain",
        "values",
        "waiter",
    )

    def __init__(self, partition: TopicPartition, *, limit_bytes: int, reserved_bytes: int, now_ms: int) -> None:
        self.partition = partition
        self.limit_bytes = limit_bytes
        self.reserved_bytes = reserved_bytes
        self.created_ms = now_ms
        # it is negative after a record that is larger than the limit
        self.room_bytes = limit_bytes - BATCH_HEADER_BYTES
        self.takes_plain = True  # open, and no key or header so far: Producer.send may append directly to the columns
        self.values: list[bytes | None] = []
        # (index of the first record, ms): records with the same ms share an entry
        self.stamps: list[tuple[int, int]] = []
        self.next_stamp_s = 0.0  # wall-clock seconds; from this time on a record needs a new entry
        self.keys: list[bytes | None] | None = None
        self.headers: list[Headers] | None = None
        self.callbacks: list[DeliveryCallback | None] | None = None
        self.state = BatchState.OPEN
        self.attempts = 0
        self.retry_at_ms = 0
        self.is_maybe_written = False
        self.is_reported = False  # the callbacks have run
        self.first_error: KafkaError | None = None
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = NO_SEQUENCE
        self.is_transactional = False
        self.encoded: Any = None  # buffers of the shell, kept for retries so that the CRC stays the same
        self.waiter: Any = None  # event of the shell, created by the first thread that waits
        self.outcome: Outcome | None = None

    @property
    def size_bytes(self) -> int:
        """Upper bound of the uncompressed size, including the header."""
        return self.limit_bytes - self.room_bytes

    @property
    def record_count(self) -> int:
        return len(self.values)

    def is_numbered_after(self, other: Batch) -> bool:
        """Compares two sequence numbers that wrap around. At most five batches are ever compared, so the distance is
        small."""
        return 0 < (self.base_sequence - other.base_sequence) % SEQUENCE_MODULUS < SEQUENCE_MODULUS // 2

    @property
    def has_sequence(self) -> bool:
        return self.base_sequence != NO_SEQUENCE

    def append(
        self,
        value: bytes | None,
        key: bytes | None,
        headers: Headers,
        timestamp_ms: int,
        callback: DeliveryCallback | None,
        size_bytes: int,
    ) -> int | None:
        """Take one record of at most `size_bytes` and return its index; None if the batch is full or closed.

        The first record always fits: a record larger than batch.size gets a batch of its own.
        """
        index = len(self.values)
        if self.state is not BatchState.OPEN or (index and size_bytes > self.room_bytes):
            return None
        self.values.append(value)
        self.room_bytes -= size_bytes
        if not index or self.stamps[-1][1] != timestamp_ms:
            self.stamps.append((index, timestamp_ms))
        self.next_stamp_s = 0.0
        if key is not None or headers:
            self.takes_plain = False
        if key is not None or self.keys is not None:
            self.keys = [None] * index if self.keys is None else self.keys
            self.keys.append(key)
        if headers or self.headers is not None:
            self.headers = [()] * index if self.headers is None else self.headers
            self.headers.append(headers)
        if callback is not None or self.callbacks is not None:
            self.callbacks = [None] * index if self.callbacks is None else self.callbacks
            self.callbacks.append(callback)
        return index

    def close(self, state: BatchState) -> None:
        """From now on the batch takes no record."""
        self.takes_plain = False
        self.state = state

    def is_full(self) -> bool:
        return self.room_bytes <= 0

    def timestamps_ms(self) -> list[int]:
        """One timestamp per record."""
        expanded: list[int] = []
        for (start, stamp_ms), end in zip(
            self.stamps, [start for start, _ in self.stamps[1:]] + [len(self.values)], strict=True
        ):
            expanded += [stamp_ms] * (end - start)
        return expanded

    def waited_ms(self, now_ms: int) -> int:
        """The sum over the records of the time since each was stamped, by the wall clock. It is zero if that clock was
        set back."""
        ends = [start for start, _ in self.stamps[1:]] + [len(self.values)]
        return sum(
            max(now_ms - stamp_ms, 0) * (end - start) for (start, stamp_ms), end in zip(self.stamps, ends, strict=True)
        )

    def metadata(self, index: int) -> RecordMetadata:
        """The metadata of one record of an acknowledged batch."""
        outcome = self.outcome
        assert outcome is not None
        assert outcome.error is None
        offset = UNKNOWN_OFFSET if outcome.base_offset < 0 else outcome.base_offset + index
        stamp_ms = outcome.log_append_time_ms
        if stamp_ms < 0:
            stamp_ms = self.stamps[bisect.bisect_right(self.stamps, index, key=_start_of) - 1][1]
        value = self.values[index]
        return RecordMetadata(
            self.partition.topic, self.partition.partition, offset, stamp_ms, -1 if value is None else len(value)
        )

    def all_metadata(self) -> Iterator[RecordMetadata]:
        """The metadata of every record in order, made in bulk. This costs 0.1 us for each record instead of 0.6."""
        outcome = self.outcome
        assert outcome is not None
        count = len(self.values)
        known, appended_ms = outcome.base_offset >= 0, outcome.log_append_time_ms
        offsets: Iterable[int] = range(outcome.base_offset, outcome.base_offset + count)
        stamps_ms = self.timestamps_ms() if appended_ms < 0 else itertools.repeat(appended_ms)
        columns = zip(
            itertools.repeat(self.partition.topic),
            itertools.repeat(self.partition.partition),
            offsets if known else itertools.repeat(UNKNOWN_OFFSET),
            stamps_ms,
            [-1 if value is None else len(value) for value in self.values],
            strict=False,
        )
        return map(tuple.__new__, itertools.repeat(RecordMetadata), columns)


def _start_of(stamp: tuple[int, int]) -> int:
    return stamp[0]


def record_size_bytes_max(value: bytes | None, key: bytes | None, headers: Headers) -> int:
    """Upper bound of a record's size in a batch, close to the real size for records without key and headers. Because it
    is an upper bound, a batch never becomes larger than batch.size.

    It counts the length varint, attributes, timestamp delta (2 bytes: linger below 8 s), offset delta (3), and the
    lengths of key and value.
    """
    size = 0 if value is None else len(value)
    if key is not None:
        size += len(key) + 4
    if headers:
        size += sum(len(name) * 3 + 10 + len(data or b"") for name, data in headers)
    return size + (12 if size < 8000 else 18)
