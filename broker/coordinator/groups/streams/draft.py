"""The changes that one event makes in a streams group: records, which are applied as they are added."""

from __future__ import annotations

from broker.coordinator.groups.streams.group import StreamsGroup
from broker.coordinator.groups.streams.records import Kind, StreamsKey, StreamsRecord, Value


class StreamsDraft:
    def __init__(self, group: StreamsGroup) -> None:
        self.group = group
        self.records: list[StreamsRecord] = []

    def add(self, kind: Kind, value: Value | None, member_id: str = "") -> None:
        key = StreamsKey(kind=kind, group_id=self.group.group_id, member_id=member_id)
        self.records.append((key, value))
        self.group.apply(key, value)


def tombstones(group: StreamsGroup) -> list[StreamsRecord]:
    """Tombstones for all records of a group without members."""
    kinds = (Kind.TARGET_EPOCH, Kind.GROUP, Kind.TOPOLOGY)
    return [(StreamsKey(kind=kind, group_id=group.group_id), None) for kind in kinds]
