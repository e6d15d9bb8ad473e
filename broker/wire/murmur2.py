"""Kafka's key hash, as the Java client's default partitioner uses it.

Shown by tests/broker_wire/test_wire_murmur2.py.
"""

from __future__ import annotations

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """32-bit Murmur2 of `data` as an unsigned number."""
    length = len(data)
    state = _SEED ^ length
    whole = length & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little")
        word = (word * _MULTIPLIER) & _MASK
        word ^= word >> 24
        word = (word * _MULTIPLIER) & _MASK
        state = ((state * _MULTIPLIER) & _MASK) ^ word
    if whole < length:
        state ^= int.from_bytes(data[whole:], "little")
        state = (state * _MULTIPLIER) & _MASK
    state ^= state >> 13
    state = (state * _MULTIPLIER) & _MASK
    return state ^ (state >> 15)


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition that Java's DefaultPartitioner picks: it clears the sign bit and takes the remainder."""
    assert partition_count > 0
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
