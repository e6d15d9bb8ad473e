"""What idempotent and transactional producers have appended to one log (KIP-98). It judges every sequenced batch and
marker.

Owns, for each producer id: its epoch, its last five batches, and its open transaction. Also the snapshot file of all
that. Five batches are enough, because a producer has at most five requests in flight, so a retry can only repeat one of
the last five. This module has no clock; the caller of `forget_idle` passes the time. If there are too many producers,
the least recently used one without a transaction is dropped. Shown by tests/broker_log/test_log_producers.py and
test_log_transactions.py.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from broker.log.filesystem import FileSystem
from broker.log.transactions import NO_COORDINATOR_EPOCH, CompletedTransaction, EndMarker, OpenTransactions
from broker.wire.records import NO_SEQUENCE, NO_TIMESTAMP, BatchHeader

BATCHES_KEPT = 5
# Kafka forgets a producer after producer.id.expiration.ms (1 day). This module has no clock, so it also bounds the
# number of producers.
PRODUCERS_MAX = 100_000
SEQUENCE_MODULUS = 2**31
SNAPSHOT_VERSION = 3  # a snapshot of another version is not used; the log is replayed instead
EPOCH_BUMP_VERSION = 2  # from this transaction.version on, every end of a transaction raises the epoch (KIP-890)


class Verdict(Enum):
    OK = "ok"
    DUPLICATE = "duplicate"  # appended before: answer success with the old offset
    OUT_OF_ORDER = "out_of_order"  # OUT_OF_ORDER_SEQUENCE_NUMBER
    INVALID_EPOCH = "invalid_epoch"  # INVALID_PRODUCER_EPOCH: a newer incarnation has appended
    # the batch is not part of the ongoing transaction, or nobody has verified that it is
    INVALID_TXN_STATE = "invalid_txn_state"
    COORDINATOR_FENCED = "coordinator_fenced"  # TRANSACTION_COORDINATOR_FENCED: a marker of an old coordinator


class AppendedBatch(NamedTuple):
    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int


@dataclass(slots=True)
class ProducerEntry:
    """Invariants: `batches` holds up to 5 batches of `epoch`, oldest first, with rising offsets. After a marker that
    raised the epoch it is empty. Batches without sequences (offset commits) are not in it."""

    epoch: int
    batches: list[AppendedBatch] = field(default_factory=list)
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp: int = NO_TIMESTAMP
    # time of the first sweep that found nothing new; None: something was appended since the last sweep
    idle_since_ms: int | None = None

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerState:
    """Changes only through `update`, `load`, `clear` and `high_watermark_advanced`. The checks change nothing."""

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        self.transactions = OpenTransactions()
        # True if a producer may be missing here although its records are or were in the log. An unknown producer is
        # then not surely new.
        self._may_have_forgotten = False

    def __len__(self) -> int:
        return len(self._entries)

    def entry(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def items(self) -> list[tuple[int, ProducerEntry]]:
        return list(self._entries.items())

    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        entry = self._entries.get(producer_id)
        is_open = self.transactions.first_offset_of(producer_id) is not None
        return is_open and entry is not None and entry.epoch == producer_epoch

    def check(self, header: BatchHeader, *, is_complete: bool = False) -> tuple[Verdict, AppendedBatch | None]:
        """Judge a batch before it is appended. For a DUPLICATE the second value is the first append.

        `is_complete`: nothing was ever deleted from the start of this log. A producer that is not known is then new.
        """
        if header.producer_id < 0 or header.is_control:
            return Verdict.OK, None
        entry = self._entries.get(header.producer_id)
        if entry is None:
            # Kafka accepts any first sequence from a producer that it does not know (ProducerAppendInfo.checkSequence,
            # KIP-360), because the state of this producer may be gone: with its records, or after
            # producer.id.expiration.ms. We do the same, unless we know that the producer is new. A new producer must
            # begin at 0. Otherwise its first batches could change their order: five are in flight, the leader refuses
            # four because too few replicas are in sync, and accepts the fifth. The four come again after it. We refuse
            # the fifth as out of order, so it is sent again after them (found by the simulation: tests/broker_sim, seed
            # 12).
            is_new = is_complete and not self._may_have_forgotten
            return (Verdict.OUT_OF_ORDER if is_new and header.base_sequence > 0 else Verdict.OK), None
        if header.producer_epoch < entry.epoch:
            return Verdict.INVALID_EPOCH, None
        is_open = self.transactions.first_offset_of(header.producer_id) is not None
        if header.base_sequence == NO_SEQUENCE and header.is_transactional:
            return Verdict.OK, None  # offset commits of a transaction have no sequences
        if header.producer_epoch > entry.epoch:
            return (Verdict.OK if header.base_sequence == 0 else Verdict.OUT_OF_ORDER), None
        for batch in entry.batches:
            if batch.base_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                return Verdict.DUPLICATE, batch
        if header.base_sequence != (entry.last_sequence + 1) % SEQUENCE_MODULUS:
            return Verdict.OUT_OF_ORDER, None
        return (Verdict.INVALID_TXN_STATE if is_open and not header.is_transactional else Verdict.OK), None

    def check_marker(
        self, producer_id: int, producer_epoch: int, marker: EndMarker, *, transaction_version: int
    ) -> Verdict:
        """Judge an end marker before it is appended.

        Since version 2 the epoch of a marker is higher than the epoch of the records that it ends. So a late marker
        cannot end a later transaction (KIP-1228). A marker of the same epoch without a transaction repeats one that is
        written already. It does no harm.
        """
        entry = self._entries.get(producer_id)
        if entry is None:
            return Verdict.OK
        if producer_epoch < entry.epoch:
            return Verdict.INVALID_EPOCH
        is_open = self.transactions.first_offset_of(producer_id) is not None
        if transaction_version >= EPOCH_BUMP_VERSION and producer_epoch == entry.epoch and is_open:
            return Verdict.INVALID_EPOCH
        return Verdict.COORDINATOR_FENCED if marker.coordinator_epoch < entry.coordinator_epoch else Verdict.OK

    def update(self, header: BatchHeader, marker: EndMarker | None = None) -> CompletedTransaction | None:
        """Note an appended batch with its final offsets. Replay and followers call this too.

        `marker` is the content of a control batch. The return value is the transaction that this marker ended here.
        """
        if header.producer_id < 0 or (header.is_control and marker is None):
            return None
        entry = self._entries.pop(header.producer_id, None)
        if entry is None:
            entry = ProducerEntry(header.producer_epoch)
        elif entry.epoch != header.producer_epoch:
            entry = ProducerEntry(header.producer_epoch, coordinator_epoch=entry.coordinator_epoch)
        completed: CompletedTransaction | None = None
        if marker is not None:
            entry.coordinator_epoch = marker.coordinator_epoch
            completed = self.transactions.end(header.producer_id, header.base_offset, is_commit=marker.is_commit)
        else:
            self._note_data(entry, header)
        entry.last_timestamp, entry.idle_since_ms = header.max_timestamp, None
        # Moved to the end. A dict keeps its order, so the first entry is the one unused for the longest time.
        self._entries[header.producer_id] = entry
        if len(self._entries) > PRODUCERS_MAX:
            self._may_have_forgotten = True
            self._evict()
        return completed

    def _note_data(self, entry: ProducerEntry, header: BatchHeader) -> None:
        # A batch without records was emptied by compaction, so its transaction is decided.
        if header.is_transactional and header.record_count > 0:
            self.transactions.begin(header.producer_id, header.base_offset)
        if header.base_sequence == NO_SEQUENCE:
            return
        entry.batches.append(
            AppendedBatch(header.base_sequence, header.last_sequence, header.base_offset, header.last_offset)
        )
        if len(entry.batches) > BATCHES_KEPT:
            del entry.batches[0]

    def _evict(self) -> None:
        """An entry with a transaction stays. Without its epoch, a zombie could append to that transaction."""
        for producer_id in self._entries:
            if self.transactions.first_offset_of(producer_id) is None:
                del self._entries[producer_id]
                return

    def forget_idle(self, now_ms: int, expiration_ms: int) -> int:
        """Forget each producer that wrote nothing for producer.id.expiration.ms and has no open transaction.

        Its next batch is judged like that of an unknown producer. Call this now and then; it returns how many were
        forgotten.

        Time counts from the first call after the producer's last append, by the clock of this host. Kafka counts from
        the timestamp of the last batch (ProducerStateManager.isProducerExpired). Timestamps of records are no reliable
        clock. Suppose that a producer copies old records with their old timestamps. Kafka forgets it while it still
        writes, and then does not recognise its retries.
        """
        forgotten = []
        for producer_id, entry in self._entries.items():
            # the second condition: somebody has set the clock back
            if entry.idle_since_ms is None or entry.idle_since_ms > now_ms:
                entry.idle_since_ms = now_ms
            is_idle = now_ms - entry.idle_since_ms >= expiration_ms
            if is_idle and self.transactions.first_offset_of(producer_id) is None:
                forgotten.append(producer_id)
        for producer_id in forgotten:
            del self._entries[producer_id]
            self._may_have_forgotten = True
        return len(forgotten)

    def expect_strangers(self) -> None:
        """The topic was deleted and created again under the same name. Producers that wrote to the old log may begin
        with any sequence, as in Kafka."""
        self._may_have_forgotten = True

    def clear(self) -> None:
        self._entries.clear()
        self.transactions.clear()

    def save(self, filesystem: FileSystem, path: str) -> None:
        """Write one JSON line and its CRC. Kafka's snapshot keeps one batch per producer. We keep all five, so that a
        retry is recognised after a restart too."""
        entries = [
            [
                producer_id,
                entry.epoch,
                entry.coordinator_epoch,
                entry.last_timestamp,
                entry.idle_since_ms,
                entry.batches,
            ]
            for producer_id, entry in self._entries.items()
        ]
        ongoing, unreplicated = self.transactions.dump()
        state = {"producers": entries, "ongoing": ongoing, "unreplicated": unreplicated}
        body = json.dumps({**state, "may_have_forgotten": self._may_have_forgotten}).encode()
        filesystem.write_atomically(path, b"%d %08x\n%s\n" % (SNAPSHOT_VERSION, zlib.crc32(body), body))

    def load(self, filesystem: FileSystem, path: str) -> bool:
        """Replace the state by a snapshot. If the file is missing, damaged or of an older version, the result is False
        and the state is empty. The log is then replayed from further back."""
        self.clear()
        if not filesystem.exists(path):
            return False
        head, _, body = filesystem.read_bytes(path).partition(b"\n")
        body = body.rstrip(b"\n")
        if head != b"%d %08x" % (SNAPSHOT_VERSION, zlib.crc32(body)):
            return False
        state = json.loads(body)
        for producer_id, epoch, coordinator_epoch, last_timestamp, idle_since_ms, batches in state["producers"]:
            self._entries[producer_id] = ProducerEntry(
                epoch,
                [AppendedBatch(*batch) for batch in batches],
                coordinator_epoch=coordinator_epoch,
                last_timestamp=last_timestamp,
                idle_since_ms=idle_since_ms,
            )
        self._may_have_forgotten |= state["may_have_forgotten"]
        self.transactions.restore(state["ongoing"], state["unreplicated"])
        return True
