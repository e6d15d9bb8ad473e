"""The data that members of a classic group send each other through the coordinator. The coordinator does not read it.

Owns the layout of three things:

- ConsumerProtocolSubscription, versions 0 to 3 (KIP-429 owned partitions, KIP-792 generation, KIP-881 rack)
- ConsumerProtocolAssignment
- the user data of the two sticky assignors

The bytes are the same as those of Java's client, because a group may have members of several libraries. Version 3 is
written. If the version is newer, only the known fields are read.
Shown by tests/broker_client/test_client_group_encodings.py.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from broker.client.core.batch import TopicPartition
from broker.wire.errors import RemoteProtocolError

SUBSCRIPTION_VERSION = 3
ASSIGNMENT_VERSION = 3
NO_GENERATION = -1
_OWNED_SINCE, _GENERATION_SINCE, _RACK_SINCE = 1, 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """`generation` is the generation in which `owned` was assigned. It is -1 if the member's client does not tell
    it."""

    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    generation: int = NO_GENERATION
    user_data: bytes | None = None
    rack: str | None = None


def encode_subscription(subscription: Subscription) -> bytes:
    return b"".join(
        [
            struct.pack(">hi", SUBSCRIPTION_VERSION, len(subscription.topics)),
            *[_string(topic) for topic in sorted(subscription.topics)],
            _bytes(subscription.user_data),
            _partitions(subscription.owned),
            struct.pack(">i", subscription.generation),
            struct.pack(">h", -1) if subscription.rack is None else _string(subscription.rack),
        ]
    )


def decode_subscription(data: bytes) -> Subscription:
    """Raises RemoteProtocolError if the bytes are no subscription: another member broke the protocol."""
    reader = _Reader(data, "a subscription")
    version = reader.int16()
    topics = frozenset([reader.string() for _ in range(reader.length())])
    user_data = reader.nullable_bytes()
    owned = reader.partitions() if version >= _OWNED_SINCE else frozenset()
    generation = reader.int32() if version >= _GENERATION_SINCE else NO_GENERATION
    rack = reader.nullable_string() if version >= _RACK_SINCE else None
    return Subscription(topics=topics, owned=owned, generation=generation, user_data=user_data, rack=rack)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    return struct.pack(">h", ASSIGNMENT_VERSION) + _partitions(partitions) + _bytes(None)


def decode_assignment(data: bytes) -> frozenset[TopicPartition]:
    """Returns the partitions. Empty bytes mean that there are none."""
    if not data:
        return frozenset()
    reader = _Reader(data, "an assignment")
    reader.int16()
    return reader.partitions()


def encode_sticky_user_data(owned: Iterable[TopicPartition], generation: int) -> bytes:
    """The user data of the assignor `sticky`: the partitions of the member, and since which generation it has them."""
    return _partitions(owned) + struct.pack(">i", generation)


def decode_sticky_user_data(data: bytes) -> tuple[frozenset[TopicPartition], int]:
    """Returns (partitions, generation). Older clients leave out the generation."""
    reader = _Reader(data, "user data of the assignor sticky")
    owned = reader.partitions()
    return owned, reader.int32() if reader.has_more() else NO_GENERATION


def encode_cooperative_user_data(generation: int) -> bytes:
    """The user data of `cooperative-sticky`, for members whose subscription has no field for the generation."""
    return struct.pack(">i", generation)


def decode_cooperative_user_data(data: bytes) -> int:
    return _Reader(data, "user data of the assignor cooperative-sticky").int32()


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _bytes(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def _partitions(partitions: Iterable[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(partitions):
        by_topic[topic].append(partition)
    parts = [struct.pack(">i", len(by_topic))]
    for topic, indexes in by_topic.items():
        parts += [_string(topic), struct.pack(f">i{len(indexes)}i", len(indexes), *indexes)]
    return b"".join(parts)


class _Reader:
    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._position = 0
        self._what = what

    def has_more(self) -> bool:
        return self._position < len(self._data)

    def _take(self, count: int) -> bytes:
        end = self._position + count
        if count < 0 or end > len(self._data):
            raise RemoteProtocolError(
                f"{self._what} of {len(self._data)} bytes: {count} more expected at byte {self._position}"
            )
        taken, self._position = self._data[self._position : end], end
        return taken

    def int16(self) -> int:
        return int.from_bytes(self._take(2), signed=True)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), signed=True)

    def length(self) -> int:
        """The length of an array. Each element has at least one byte, so a length above the number of bytes is an
        error."""
        count = self.int32()
        if not 0 <= count <= len(self._data):
            raise RemoteProtocolError(f"{self._what}: an array of {count} elements in {len(self._data)} bytes")
        return count

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise RemoteProtocolError(f"{self._what}: null where a name is expected")
        return text

    def nullable_string(self) -> str | None:
        count = self.int16()
        if count == -1:
            return None
        try:
            return self._take(count).decode()
        except UnicodeDecodeError as error:
            raise RemoteProtocolError(f"{self._what}: a name that is not UTF-8") from error

    def nullable_bytes(self) -> bytes | None:
        count = self.int32()
        return None if count == -1 else self._take(count)

    def partitions(self) -> frozenset[TopicPartition]:
        found = []
        for _ in range(self.length()):
            topic = self.string()
            found += [TopicPartition(topic, self.int32()) for _ in range(self.length())]
        return frozenset(found)
