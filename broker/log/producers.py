"""What idempotent producers have appended (KIP-98): the judge of every sequenced batch.

Owns: per producer id its epoch and its last five batches, and their snapshot file. Five, because a producer may have
five requests in flight: a retry can only be of one of those. Knows no clock: the least recently used entry leaves
first. Shown by tests/broker_log/test_log_producers.py.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from broker.log.filesystem import FileSystem
from broker.wire.records import BatchHeader

BATCHES_KEPT = 5
# Kafka forgets a producer after producer.id.expiration.ms (1 day); without a clock the number of them is bounded.
PRODUCERS_MAX = 100_000
SEQUENCE_MODULUS = 2**31


class Verdict(Enum):
    OK = "ok"
    DUPLICATE = "duplicate"  # appended before: answer success with the old offset
    OUT_OF_ORDER = "out_of_order"  # OUT_OF_ORDER_SEQUENCE_NUMBER
    INVALID_EPOCH = "invalid_epoch"  # INVALID_PRODUCER_EPOCH: a newer incarnation has appended


class AppendedBatch(NamedTuple):
    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int


@dataclass(slots=True)
class ProducerEntry:
    """Invariant: `batches` holds 1 to 5 batches of `epoch`, oldest first, offsets rising."""

    epoch: int
    batches: list[AppendedBatch] = field(default_factory=list)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence


class ProducerState:
    """Changes only through `update`, `load` and `clear`; `check` has no effect."""

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def entry(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def check(self, header: BatchHeader) -> tuple[Verdict, AppendedBatch | None]:
        """Judge a batch before it is appended; the second value is the first append if this is a DUPLICATE."""
        if header.producer_id < 0 or header.is_control:
            return Verdict.OK, None
        entry = self._entries.get(header.producer_id)
        if entry is None:
            # Its state may have been evicted, so any sequence may be next: Kafka accepts it, and so do we.
            return Verdict.OK, None
        if header.producer_epoch < entry.epoch:
            return Verdict.INVALID_EPOCH, None
        if header.producer_epoch > entry.epoch:
            return (Verdict.OK if header.base_sequence == 0 else Verdict.OUT_OF_ORDER), None
        for batch in entry.batches:
            if batch.base_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                return Verdict.DUPLICATE, batch
        if header.base_sequence == (entry.last_sequence + 1) % SEQUENCE_MODULUS:
            return Verdict.OK, None
        return Verdict.OUT_OF_ORDER, None

    def update(self, header: BatchHeader) -> None:
        """Note an appended batch, with its final offsets. Also what replay and followers call."""
        if header.producer_id < 0 or header.is_control:
            return
        entry = self._entries.pop(header.producer_id, None)
        if entry is None or entry.epoch != header.producer_epoch:
            entry = ProducerEntry(header.producer_epoch)
        entry.batches.append(
            AppendedBatch(header.base_sequence, header.last_sequence, header.base_offset, header.last_offset)
        )
        if len(entry.batches) > BATCHES_KEPT:
            del entry.batches[0]
        self._entries[header.producer_id] = entry  # at the end: dicts keep order, so the first is the longest unused
        if len(self._entries) > PRODUCERS_MAX:
            del self._entries[next(iter(self._entries))]

    def clear(self) -> None:
        self._entries.clear()

    def save(self, filesystem: FileSystem, path: str) -> None:
        """One JSON line and its CRC. Kafka's own snapshot keeps one batch per producer; we keep all five, so that a
        retry is recognised across a restart too."""
        body = json.dumps([[key, entry.epoch, entry.batches] for key, entry in self._entries.items()]).encode()
        filesystem.write_atomically(path, b"%d %08x\n%s\n" % (1, zlib.crc32(body), body))

    def load(self, filesystem: FileSystem, path: str) -> bool:
        """Replace the state by a snapshot; False (and an empty state) if the file is missing or damaged."""
        self._entries.clear()
        if not filesystem.exists(path):
            return False
        head, _, body = filesystem.read_bytes(path).partition(b"\n")
        body = body.rstrip(b"\n")
        if head != b"1 %08x" % zlib.crc32(body):
            return False
        for producer_id, epoch, batches in json.loads(body):
            self._entries[producer_id] = ProducerEntry(epoch, [AppendedBatch(*batch) for batch in batches])
        return True
