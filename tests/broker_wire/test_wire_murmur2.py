"""Known answers of Java's Utils.murmur2 (from Kafka's own UtilsTest), and agreement with another implementation."""

from __future__ import annotations

import random

import pytest
from kafka.partitioner.default import murmur2 as other_murmur2

from broker.wire.murmur2 import murmur2, partition_for_key

KNOWN = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize(("key", "signed"), KNOWN)
def test_murmur2_gives_javas_answers(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF


def test_murmur2_agrees_with_kafka_python() -> None:
    rng = random.Random(1)
    for size in range(70):
        key = rng.randbytes(size)
        assert murmur2(key) == other_murmur2(key) & 0xFFFFFFFF


def test_partition_is_in_range_for_negative_hashes() -> None:
    assert partition_for_key(b"21", 12) == (-973932308 & 0x7FFFFFFF) % 12
