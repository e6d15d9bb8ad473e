"""Limits how much the final read takes from a cluster, and for how long. What a leader says about the end of its log is
only a claim.

A broker could claim an end offset of 2^62 and serve record after record. A run would then read until the disk is full.
The number of records that this run sent limits what can be there. Shown by tests/harness/test_harness_read_bound.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from broker.door.batches import RawBatch
from harness.run.evidence.final_read import LogReader

# A sent record may be in the log several times: retries without idempotence, copies of aborted transactions.
RECORDS_PER_SENT: Final = 20
RECORDS_MIN: Final = 1_000_000
TIMEOUT_MIN_S: Final = 600.0
RECORDS_PER_S: Final = 2_000  # a tenth of what a busy host reads


class ReadTooLongError(RuntimeError):
    """More came, or it took longer, than what was sent can explain."""


class BoundedReader:
    """A LogReader that ends with ReadTooLongError. The bounds are for all partitions together."""

    def __init__(self, reader: LogReader, *, sent: int, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._reader, self._clock_s, self._sent = reader, clock_s, sent
        self._records_max = self._records_left = RECORDS_MIN + RECORDS_PER_SENT * sent
        self._timeout_s = TIMEOUT_MIN_S + sent / RECORDS_PER_S
        self._deadline_s = clock_s() + self._timeout_s

    def start_offset(self, partition: int) -> int:
        self._check(partition)
        return self._reader.start_offset(partition)

    def end_offset(self, partition: int) -> int:
        self._check(partition)
        return self._reader.end_offset(partition)

    def batches(self, partition: int, to_offset: int, *, from_offset: int | None = None) -> Iterable[RawBatch]:
        return self._counted(partition, to_offset, self._reader.batches(partition, to_offset, from_offset=from_offset))

    def _counted(self, partition: int, to_offset: int, batches: Iterable[RawBatch]) -> Iterator[RawBatch]:
        for batch in batches:
            self._check(partition)
            self._records_left -= max(1, batch.header.record_count)  # a batch without records still costs work
            if self._records_left < 0:
                raise ReadTooLongError(
                    f"more than {self._records_max:,} records came of this topic, to which {self._sent:,} were sent; "
                    f"stopped at offset {batch.header.base_offset}; the leader says that the log ends at {to_offset}"
                )
            yield batch

    def _check(self, partition: int) -> None:
        if self._clock_s() >= self._deadline_s:
            raise ReadTooLongError(f"not read: the reading of all partitions took longer than {self._timeout_s:.0f} s")
