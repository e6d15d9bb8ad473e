"""The committed offsets of all groups of a shard, and the pending offsets of open transactions (KIP-447).

A transactional offset is pending until the marker of its producer. A commit marker makes it the group's offset, unless
a later plain commit was written in between. An abort marker drops it. Only records and markers change the state, so a
replay of the log gives the same state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from broker.coordinator.groups.records import OffsetKey, OffsetValue

Place: TypeAlias = tuple[str, int]  # (topic, partition)
_Entry: TypeAlias = tuple[int, OffsetValue]  # (order of writing, value)


class Offsets:
    def __init__(self) -> None:
        self._written = 0
        self._committed: dict[str, dict[Place, _Entry]] = {}  # The key is the group id. There are no empty maps.
        # The keys are the producer id and the group id. There are no empty maps.
        self._pending: dict[int, dict[str, dict[Place, _Entry]]] = {}
        # The key is the group id, the counts say how many producers have a pending offset. There are no empty maps.
        self._waiting: dict[str, Counter[Place]] = {}

    def apply(self, key: OffsetKey, value: OffsetValue | None, *, producer_id: int = -1) -> None:
        """If `producer_id` >= 0, the record is part of that producer's transaction."""
        self._written += 1
        place = (key.topic, key.partition)
        if value is None:
            group = self._committed.get(key.group_id, {})
            group.pop(place, None)
            if not group:
                self._committed.pop(key.group_id, None)
        elif producer_id >= 0:
            pending = self._pending.setdefault(producer_id, {}).setdefault(key.group_id, {})
            if place not in pending:
                self._waiting.setdefault(key.group_id, Counter())[place] += 1
            pending[place] = (self._written, value)
        else:
            self._committed.setdefault(key.group_id, {})[place] = (self._written, value)

    def complete(self, producer_id: int, *, is_commit: bool) -> frozenset[str]:
        """Applies the marker of a producer. Returns the groups that had pending offsets of this producer."""
        groups = self._pending.pop(producer_id, {})
        for group_id, places in groups.items():
            self._wait_ends(group_id, places)
        if is_commit:
            for group_id, places in groups.items():
                committed = self._committed.setdefault(group_id, {})
                for place, entry in places.items():
                    if place not in committed or committed[place][0] < entry[0]:
                        committed[place] = entry
        return frozenset(groups)

    def _wait_ends(self, group_id: str, places: Iterable[Place]) -> None:
        waiting = self._waiting[group_id]
        for place in places:
            waiting[place] -= 1
            if not waiting[place]:
                del waiting[place]
        if not waiting:
            del self._waiting[group_id]

    def of_group(self, group_id: str) -> dict[Place, OffsetValue]:
        return {place: value for place, (_, value) in self._committed.get(group_id, {}).items()}

    def get(self, group_id: str, place: Place) -> OffsetValue | None:
        entry = self._committed.get(group_id, {}).get(place)
        return None if entry is None else entry[1]

    def is_pending(self, group_id: str, place: Place) -> bool:
        return place in self._waiting.get(group_id, ())

    def has_pending(self, group_id: str) -> bool:
        return group_id in self._waiting

    def groups(self) -> Iterator[str]:
        """Ids of the groups with committed offsets."""
        yield from list(self._committed)

    def has_any(self, group_id: str) -> bool:
        return group_id in self._committed

    def durable(self) -> object:
        """The state without the absolute order of writing. It serves to compare a live shard with a replayed one."""
        pending = {
            producer_id: {
                group: {place: value for place, (_, value) in places.items()} for group, places in each.items()
            }
            for producer_id, each in self._pending.items()
        }
        return {group_id: self.of_group(group_id) for group_id in self._committed}, pending
