"""The records of a load as arrays, for clients that take many at once. Pure.

Shown by tests/workloads/test_workloads_batches.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from runlog.streams.byte_cycle import ByteCycle
from runlog.streams.payload_pool import PayloadPool
from workloads.clients.protocol import RecordBatch
from workloads.outcomes import topic_of

BATCH_BYTES_MAX: Final = 1 << 20  # of values, but one record may be larger
_NO_KEYS: Final = np.empty(0, dtype=np.uint8)


class BatchMaker:
    """The same records as one by one: of `pool`, with `keys` in turn, to the topics in turn."""

    def __init__(
        self, pool: PayloadPool, keys: Sequence[bytes] | None, *, topics: int, producer: int, incarnation: int
    ) -> None:
        self._pool, self._topics = pool, topics
        self._producer, self._incarnation = producer, incarnation
        self._keys = None if keys is None else ByteCycle(keys)

    def fitting(self, first_seq: int, count: int) -> int:
        """How many of so many records a batch may hold, at least one."""
        if count * self._pool.size_bytes_max <= BATCH_BYTES_MAX:
            return count
        sizes = self._pool.sizes_bytes(first_seq, count)
        return max(1, int(np.searchsorted(np.cumsum(sizes, dtype=np.int64), BATCH_BYTES_MAX, side="right")))

    def batch(self, first_seq: int, intended_ns: NDArray[np.int64]) -> RecordBatch:
        count, keys = len(intended_ns), self._keys
        seqs = np.arange(first_seq, first_seq + count)
        return RecordBatch(
            seqs=seqs,
            topics=_constant(0, count) if self._topics == 1 else topic_of(self._producer, seqs, self._topics),
            partitions=_constant(-1, count),
            key_sizes=_constant(-1, count) if keys is None else keys.sizes(first_seq, count),
            keys=_NO_KEYS if keys is None else keys.copy(first_seq, count),
            value_sizes=self._pool.sizes_bytes(first_seq, count),
            values=self._pool.values(self._producer, self._incarnation, first_seq, intended_ns),
        )


def _constant(number: int, count: int) -> NDArray[np.int32]:
    """The same number for each record, in memory once."""
    return np.broadcast_to(np.int32(number), count)
