"""The records of a tape's topic: what others wrote before and meanwhile, and what the client itself produces. Pure.

Others write what a trial's cluster writes too (harness/explore/execution/other_writers.py): `other/N`, the partitions
in turn, one by one or in a transaction. A batch of an idempotent producer is appended once, as a broker does it: a
repetition gets the offset that it has. Transactions have their markers in the log, and who reads what is committed gets
nothing behind the first open one. Shown by tests/harness/test_harness_tape_script.py.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from broker.door.batches import decode_fetched, encode_batch, iter_batches
from harness.explore.trial.history import Logged

KNOWN_BATCHES: Final = 5  # A repetition of one of a producer's last so many batches is recognised, as in Kafka.
OUT_OF_ORDER: Final = 45
OTHERS_ID: Final = 900  # the producer id of those who write in transactions beside the client
_TIMESTAMP_MS: Final = 1_600_000_000_000  # any; a tape plays alike every time
_MARKER_KEY: Final = struct.Struct(">hh")  # version, type: 0 abort, 1 commit (KIP-98)
_MARKER_VALUE: Final = struct.Struct(">hi")  # version, epoch of the coordinator


@dataclass(slots=True, kw_only=True)
class _Batch:
    """`is_hidden`: a marker, or records whose transaction is not committed."""

    base_offset: int
    last_offset: int
    data: bytes
    is_marker: bool = False
    writer: int = -1  # the producer id of its transaction; -1: none
    is_hidden: bool = False


@dataclass(slots=True)
class _Log:
    """`end_visible`: behind the last record that a reader of what is committed is given."""

    batches: list[_Batch] = field(default_factory=list)
    end: int = 0
    end_visible: int = 0
    # (producer id, epoch) -> (base sequence, last sequence, base offset) of its last batches
    sequences: dict[tuple[int, int], deque[tuple[int, int, int]]] = field(default_factory=dict)
    open: dict[int, tuple[int, int]] = field(default_factory=dict)  # producer id -> first and last offset
    aborted: list[tuple[int, int, int]] = field(default_factory=list)  # producer id, first offset, its marker's offset

    @property
    def stable_end(self) -> int:
        return min((first for first, _ in self.open.values()), default=self.end)

    def add(self, data: bytes, count: int, writer: int = -1, *, is_marker: bool = False) -> int:
        """`data` has its offset already. Returns the first one. `writer` of a transaction has it open from here on."""
        base, is_open = self.end, writer >= 0 and not is_marker
        self.end += count
        self.batches.append(
            _Batch(
                base_offset=base,
                last_offset=self.end - 1,
                data=data,
                is_marker=is_marker,
                writer=writer,
                is_hidden=is_marker or is_open,
            )
        )
        if is_open:
            begun, _ = self.open.get(writer, (base, base))
            self.open[writer] = (begun, self.end - 1)
        elif not is_marker:
            self.end_visible = self.end
        return base

    def show(self, writer: int, first: int) -> None:
        """The records of a transaction that is committed."""
        for batch in self.batches:
            if batch.writer == writer and batch.base_offset >= first and not batch.is_marker:
                batch.is_hidden = False


class Partitions:
    """`is_read_uncommitted`: the reader is given what was given up, too."""

    def __init__(self, count: int, prefilled: int, *, is_read_uncommitted: bool = False) -> None:
        self._logs = [_Log() for _ in range(count)]
        self._others = 0
        self._is_read_uncommitted = is_read_uncommitted
        self.write_others(prefilled)

    @property
    def ends(self) -> dict[int, int]:
        return {number: log.end for number, log in enumerate(self._logs)}

    @property
    def stable_ends(self) -> dict[int, int]:
        """Behind it transactions are open."""
        return {number: log.stable_end for number, log in enumerate(self._logs)}

    @property
    def visible_ends(self) -> dict[int, int]:
        """Behind the last record that the reader is given."""
        return {number: log.end_visible for number, log in enumerate(self._logs)}

    def has(self, partition: int) -> bool:
        return 0 <= partition < len(self._logs)

    # --- what others write --------------------------------------------------------------------------------------------

    def write_others(self, count: int, size_bytes: int = 0) -> None:
        self._write(count, size_bytes, is_transactional=False)

    def write_others_in_transaction(self, count: int, size_bytes: int, *, is_committed: bool) -> None:
        """It has ended when this returns."""
        touched = self._write(count, size_bytes, is_transactional=True)
        self.end_transaction(OTHERS_ID, 0, touched, is_committed=is_committed)

    def _write(self, count: int, size_bytes: int, *, is_transactional: bool) -> set[int]:
        """Returns the partitions that got a record."""
        touched: set[int] = set()
        for number in range(self._others, self._others + count):
            partition = number % len(self._logs)
            log = self._logs[partition]
            data = encode_batch(
                [(b"other/%d" % number).ljust(size_bytes, b".")],
                timestamps_ms=_TIMESTAMP_MS,
                base_offset=log.end,
                partition_leader_epoch=0,
                producer_id=OTHERS_ID if is_transactional else -1,
                producer_epoch=0 if is_transactional else -1,
                base_sequence=number if is_transactional else -1,
                transactional=is_transactional,
            )
            log.add(data, 1, OTHERS_ID if is_transactional else -1)
            touched.add(partition)
        self._others += count
        return touched

    # --- what the client writes ---------------------------------------------------------------------------------------

    def append(self, partition: int, records: bytes) -> tuple[int, int]:
        """Of a Produce request. Returns (error code, base offset)."""
        log = self._logs[partition]
        base = -1
        for batch in iter_batches(records):
            header = batch.header
            count = header.last_offset_delta + 1
            sequence = header.base_sequence
            if header.producer_id >= 0:
                known = log.sequences.setdefault(
                    (header.producer_id, header.producer_epoch), deque(maxlen=KNOWN_BATCHES)
                )
                same = next(
                    (offset for first, last, offset in known if (first, last) == (sequence, sequence + count - 1)), None
                )
                if same is not None:
                    base = same if base < 0 else base
                    continue
                if known and sequence != known[-1][1] + 1:
                    return OUT_OF_ORDER, -1
                known.append((sequence, sequence + count - 1, log.end))
            data = log.end.to_bytes(8, "big") + bytes(batch.buffer)[8:12] + bytes(4) + bytes(batch.buffer)[16:]
            first = log.add(data, count, header.producer_id if header.is_transactional else -1)
            base = first if base < 0 else base
        return 0, base

    def end_transaction(self, producer_id: int, epoch: int, partitions: Collection[int], *, is_committed: bool) -> None:
        """Its marker in each of these, also where it has written nothing."""
        for number in sorted(partitions):
            log = self._logs[number]
            data = encode_batch(
                [_MARKER_VALUE.pack(0, 0)],
                keys=[_MARKER_KEY.pack(0, int(is_committed))],
                timestamps_ms=_TIMESTAMP_MS,
                base_offset=log.end,
                partition_leader_epoch=0,
                producer_id=producer_id,
                producer_epoch=epoch,
                transactional=True,
                control=True,
            )
            marker = log.add(data, 1, producer_id, is_marker=True)
            written = log.open.pop(producer_id, None)
            if written is None:
                continue
            if is_committed:
                log.show(producer_id, written[0])
            else:
                log.aborted.append((producer_id, written[0], marker))
            if is_committed or self._is_read_uncommitted:
                log.end_visible = max(log.end_visible, written[1] + 1)

    # --- what is read -------------------------------------------------------------------------------------------------

    def fetch(self, partition: int, offset: int, bytes_max: int, *, is_committed: bool = False) -> bytes:
        """Whole batches from the one that holds `offset`; at least one, if there is any. With `is_committed` nothing
        from the first open transaction on."""
        found: list[bytes] = []
        size = 0
        log = self._logs[partition]
        end = log.stable_end if is_committed else log.end
        for batch in log.batches:
            if batch.last_offset < offset:
                continue
            if batch.base_offset >= end or (found and size + len(batch.data) > bytes_max):
                break
            found.append(batch.data)
            size += len(batch.data)
        return b"".join(found)

    def aborted(self, partition: int, offset: int) -> list[tuple[int, int]]:
        """Producer id and first offset of each transaction that was given up and ends at `offset` or later."""
        return [(who, first) for who, first, last in self._logs[partition].aborted if last >= offset]

    def logged(self) -> tuple[Logged, ...]:
        """What is still open counts as given up: its client did not end it."""
        return tuple(
            Logged(partition=number, offset=offset, value=value or key, is_aborted=batch.is_hidden)
            for number, log in enumerate(self._logs)
            for batch in log.batches
            if not batch.is_marker
            for raw in iter_batches(batch.data)
            for offset, _, key, value, _ in decode_fetched(raw)
        )
