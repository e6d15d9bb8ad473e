"""Partitioners: Java's hash vectors, stickiness by bytes, turns, and the caller's own function."""

from __future__ import annotations

import random

import pytest

from broker.client.core.partitioners import RoundRobinPartitioner, StickyPartitioner
from broker.wire.murmur2 import murmur2

# From UtilsTest.java of Apache Kafka: signed 32-bit results.
JAVA_VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "hashed"), JAVA_VECTORS.items())
def test_a_keyed_record_goes_where_java_sends_it(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF
    partitioner = StickyPartitioner(16384, random.Random(1))
    for count in (1, 3, 7, 100):
        assert partitioner.choose("t", key, b"v", count, range(count)) == (hashed & 0x7FFFFFFF) % count


def test_records_without_key_stay_until_batch_size_bytes_were_appended() -> None:
    partitioner = StickyPartitioner(1000, random.Random(4))
    seen = []
    for _ in range(200):
        chosen = partitioner.choose("t", None, b"v", 4, range(4))
        partitioner.on_appended("t", chosen, 250)
        seen.append(chosen)
    assert all(len(set(seen[start : start + 4])) == 1 for start in range(0, 200, 4))
    assert set(seen) == {0, 1, 2, 3}


def test_sticky_prefers_partitions_that_have_a_leader() -> None:
    partitioner = StickyPartitioner(1, random.Random(4))
    for _ in range(50):
        chosen = partitioner.choose("t", None, b"v", 4, (1, 3))
        partitioner.on_appended("t", chosen, 10)
        assert chosen in (1, 3)


def test_ignoring_keys_makes_keyed_records_sticky() -> None:
    partitioner = StickyPartitioner(10**6, random.Random(4), ignore_keys=True)
    assert len({partitioner.choose("t", b"%d" % index, b"v", 8, range(8)) for index in range(50)}) == 1


def test_round_robin_takes_each_partition_in_turn() -> None:
    partitioner = RoundRobinPartitioner()
    assert [partitioner.choose("t", b"same", None, 3, (0, 1, 2)) for _ in range(6)] == [0, 1, 2, 0, 1, 2]
