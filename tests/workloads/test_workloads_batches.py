"""Records as arrays are the records that a load sends one by one."""

from __future__ import annotations

import numpy as np
import pytest

from runlog.streams.payload_pool import PayloadPool
from workloads.batches import BATCH_BYTES_MAX, BatchMaker
from workloads.outcomes import topic_of

POOLS = {
    "of one size": PayloadPool(record_size_bytes=600_000, compressibility=0.5, seed=1),
    "of many sizes": PayloadPool.of_bodies([b"", b"abc", b"x" * 200, b"y", b"z" * 33]),
}
KEYS = [b"key-%d" % number for number in range(8, 12)]


@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
@pytest.mark.parametrize("keys", [None, KEYS], ids=["no keys", "keys"])
def test_a_batch_holds_what_is_made_one_by_one(pool: PayloadPool, keys: list[bytes] | None) -> None:
    first, intended_ns = (1 << 33) - 3, np.arange(12) * 1_000_003 + (5 << 40) - 7_000_000
    batch = BatchMaker(pool, keys, topics=3, producer=7, incarnation=2).batch(first, intended_ns)
    seqs = range(first, first + 12)
    values = [pool.value(7, 2, seq, int(at)) for seq, at in zip(seqs, intended_ns, strict=True)]
    assert batch.seqs.tolist() == list(seqs)
    assert batch.values.tobytes() == b"".join(values)
    assert batch.value_sizes.tolist() == [len(value) for value in values]
    assert batch.topics.tolist() == [topic_of(7, seq, 3) for seq in seqs]
    expected = [None if keys is None else keys[seq % len(keys)] for seq in seqs]
    assert batch.keys.tobytes() == b"".join(key or b"" for key in expected)
    assert batch.key_sizes.tolist() == [-1 if key is None else len(key) for key in expected]


def test_a_batch_has_at_most_so_many_bytes_but_at_least_one_record() -> None:
    large = PayloadPool.of_bodies([b"x" * (BATCH_BYTES_MAX // 3), b"y" * 2 * BATCH_BYTES_MAX])
    maker = BatchMaker(large, None, topics=1, producer=0, incarnation=0)
    assert [maker.fitting(first, 5) for first in (0, 1)] == [1, 1]
    small = BatchMaker(POOLS["of many sizes"], None, topics=1, producer=0, incarnation=0)
    assert small.fitting(0, 5) == 5
