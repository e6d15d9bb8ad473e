"""The records of a tape's topic: what others wrote before and meanwhile, and what the client itself produces. Pure.

Others write what a trial's cluster writes too (harness/explore/execution/bench.py): `other/N`, the partitions in turn.
A batch of an idempotent producer is appended once, as a broker does it: a repetition gets the offset that it has.
Shown by tests/harness/test_harness_tape_script.py.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from broker.door.batches import decode_fetched, encode_batch, iter_batches
from harness.explore.trial.history import Logged

KNOWN_BATCHES: Final = 5  # A repetition of one of a producer's last so many batches is recognised, as in Kafka.
OUT_OF_ORDER: Final = 45
_TIMESTAMP_MS: Final = 1_600_000_000_000  # any; a tape plays alike every time


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    base_offset: int
    last_offset: int
    data: bytes
    values: tuple[bytes | None, ...]


@dataclass(slots=True)
class _Log:
    batches: list[_Batch] = field(default_factory=list)
    end: int = 0
    # (producer id, epoch) -> (base sequence, last sequence, base offset) of its last batches
    sequences: dict[tuple[int, int], deque[tuple[int, int, int]]] = field(default_factory=dict)


class Partitions:
    def __init__(self, count: int, prefilled: int) -> None:
        self._logs = [_Log() for _ in range(count)]
        self._others = 0
        self.write_others(prefilled)

    @property
    def ends(self) -> dict[int, int]:
        return {number: log.end for number, log in enumerate(self._logs)}

    def has(self, partition: int) -> bool:
        return 0 <= partition < len(self._logs)

    def write_others(self, count: int, size_bytes: int = 0) -> None:
        for number in range(self._others, self._others + count):
            log = self._logs[number % len(self._logs)]
            value = (b"other/%d" % number).ljust(size_bytes, b".")
            data = encode_batch([value], timestamps_ms=_TIMESTAMP_MS, base_offset=log.end, partition_leader_epoch=0)
            log.batches.append(_Batch(base_offset=log.end, last_offset=log.end, data=data, values=(value,)))
            log.end += 1
        self._others += count

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
            base = log.end if base < 0 else base
            values = tuple(value for _, _, _, value, _ in decode_fetched(batch))
            data = log.end.to_bytes(8, "big") + bytes(batch.buffer)[8:12] + bytes(4) + bytes(batch.buffer)[16:]
            log.batches.append(_Batch(base_offset=log.end, last_offset=log.end + count - 1, data=data, values=values))
            log.end += count
        return 0, base

    def fetch(self, partition: int, offset: int, bytes_max: int) -> bytes:
        """Whole batches from the one that holds `offset`; at least one, if there is any."""
        found: list[bytes] = []
        size = 0
        for batch in self._logs[partition].batches:
            if batch.last_offset < offset:
                continue
            if found and size + len(batch.data) > bytes_max:
                break
            found.append(batch.data)
            size += len(batch.data)
        return b"".join(found)

    def logged(self) -> tuple[Logged, ...]:
        return tuple(
            Logged(partition=number, offset=batch.base_offset + place, value=value)
            for number, log in enumerate(self._logs)
            for batch in log.batches
            for place, value in enumerate(batch.values)
        )
