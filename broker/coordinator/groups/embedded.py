"""The consumer's own messages inside the classic protocol ("consumer" as protocol type): subscription and assignment.

A group of KIP-848 reads the subscriptions of its classic members and writes their assignments, because it assigns for
them. A classic group passes both on without reading them. Both begin with a version (int16). As in Kafka, any version
is read, but only the fields of versions 0 to 3. The messages contain names of topics, the group contains ids. Shown by
tests/broker_coordinator/test_coordinator_embedded.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from broker.coordinator.groups.records import Assignment
from broker.coordinator.schema import Reader, SchemaError, Writer

PROTOCOL_TYPE = "consumer"
NEWEST_VERSION = 3
_NO_BYTES = (-1).to_bytes(4, "big", signed=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    topics: tuple[str, ...]
    owned: Mapping[str, frozenset[int]]  # the partitions that the member owns when it joins; empty before version 1
    rack_id: str | None = None


def decode_subscription(data: bytes) -> Subscription:
    """Raises SchemaError for bytes that no consumer of Kafka sends."""
    reader = Reader(data)
    if reader.version < 0:
        raise SchemaError(f"version {reader.version} of a subscription")
    topics = reader.array(reader.string)
    _nullable_bytes(reader)  # user data of the client's assignor; the server's assignor needs none
    owned: dict[str, frozenset[int]] = {}
    rack_id = None
    if reader.version >= 1:
        owned = _read_partitions(reader)
    if reader.version >= 2:
        reader.int32()  # the generation of `owned`; the group knows it
    if reader.version >= NEWEST_VERSION:
        rack_id = reader.nullable_string()
    return Subscription(topics=topics, owned=owned, rack_id=rack_id)


def decode_assignment(data: bytes) -> tuple[dict[str, frozenset[int]], bytes]:
    """Returns (partitions by topic name, user data of the assignor for this member). Raises SchemaError."""
    if not data:
        return {}, b""  # the member has never got an assignment
    reader = Reader(data)
    if reader.version < 0:
        raise SchemaError(f"version {reader.version} of an assignment")
    return _read_partitions(reader), _nullable_bytes(reader)


def encode_assignment(assignment: Assignment, names: Mapping[UUID, str], *, version: int) -> bytes:
    """A topic that was just deleted has no name any more, so it is left out."""
    known = sorted(
        (names[topic_id], sorted(partitions)) for topic_id, partitions in assignment.items() if topic_id in names
    )
    writer = Writer(max(0, min(version, NEWEST_VERSION)))
    writer.array(known, lambda each: writer.string(each[0]).array(each[1], writer.int32))
    return bytes(writer) + _NO_BYTES


def version_of(data: bytes) -> int:
    """The version in which the member with this metadata wants its assignment. 0 if the metadata does not tell."""
    try:
        return Reader(data).version
    except SchemaError:
        return 0


def _read_partitions(reader: Reader) -> dict[str, frozenset[int]]:
    def read() -> tuple[str, frozenset[int]]:
        return reader.string(), frozenset(reader.array(reader.int32))

    found: dict[str, frozenset[int]] = {}
    for topic, partitions in reader.array(read):
        found[topic] = found.get(topic, frozenset()) | partitions
    return found


def _nullable_bytes(reader: Reader) -> bytes:
    size = reader.int32()
    return b"" if size < 0 else reader.raw(size)
