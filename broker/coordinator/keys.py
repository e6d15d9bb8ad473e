"""The partition of an internal topic to which a key belongs. It follows from Java's String.hashCode, as in every Kafka
broker."""

from __future__ import annotations


def java_hash(text: str) -> int:
    """String.hashCode over UTF-16 code units, as a signed 32-bit number."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(encoded), 2):
        value = (31 * value + (encoded[position] << 8 | encoded[position + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(key: str, partitions: int) -> int:
    """The partition of a group id or transactional id. Kafka's Utils.abs is the absolute value, and 0 of the lowest
    number, which has none. The sign bit is not dropped: that is Utils.toPositive, for the keys of records."""
    hashed = java_hash(key)
    return 0 if hashed == -(1 << 31) else abs(hashed) % partitions
