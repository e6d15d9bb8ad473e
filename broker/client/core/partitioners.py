"""Partitioners choose the partition of a record: by the hash of the key as in Java's client, sticky without a key, or
in turn.

The caller passes the source of randomness. Shown by tests/broker_client/test_client_partitioners.py.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from broker.wire.murmur2 import partition_for_key


class Partitioner(Protocol):
    def choose(
        self, topic: str, key: bytes | None, value: bytes | None, count: int, available: Sequence[int]
    ) -> int: ...

    def on_appended(self, topic: str, partition: int, size_bytes: int) -> None:
        """Tell how many bytes went to a partition that `choose` picked."""


class StickyPartitioner:
    """The built-in partitioner of Java's client (KIP-480, KIP-794). The murmur2 hash of the key chooses the partition
    of a record with a key. Records without a key stay with one partition for `batch_size` bytes.

    The switch counts bytes and not batches, so a slow broker does not attract more records than a fast one.
    """

    def __init__(self, batch_size: int, rng: random.Random, *, ignore_keys: bool = False) -> None:
        self._batch_size = max(batch_size, 1)
        self._random = rng
        self._ignore_keys = ignore_keys
        self._current: dict[str, int] = {}
        self._bytes: dict[str, int] = {}

    def choose(self, topic: str, key: bytes | None, value: bytes | None, count: int, available: Sequence[int]) -> int:
        if key is not None and not self._ignore_keys:
            return partition_for_key(key, count)
        current = self._current.get(topic)
        if current is None or current >= count or self._bytes[topic] >= self._batch_size:
            current = self._random.choice(available) if available else self._random.randrange(count)
            self._current[topic] = current
            self._bytes[topic] = 0
        return current

    def on_appended(self, topic: str, partition: int, size_bytes: int) -> None:
        if self._current.get(topic) == partition:
            self._bytes[topic] += size_bytes


class RoundRobinPartitioner:
    """Each record goes to the next partition that has a leader. The key does not matter."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def choose(self, topic: str, key: bytes | None, value: bytes | None, count: int, available: Sequence[int]) -> int:
        turn = self._next.get(topic, 0)
        self._next[topic] = turn + 1
        return available[turn % len(available)] if available else turn % count

    def on_appended(self, topic: str, partition: int, size_bytes: int) -> None:
        pass
