"""Assigns the partitions of a share group (KIP-932), by the rules of Kafka's `simple` assignor. It is pure.

Every partition is read by as many members: the least number that gives every member a partition. So if there are more
members than partitions, several members read the same partition, and some members have more than others. First a
member gives up what it has too much, then a partition gives up its readers above that number, and what is left stays.
If members subscribe to different topics, each topic is assigned separately. Then a member's target keeps a topic that
nobody subscribes to any more: what the member is told leaves it out (protocol.py).
Members and partitions come in their order here. In Kafka they come in the order of hash tables, so among equals
another one may move.
Shown by tests/broker_coordinator/test_coordinator_share_assignor.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import ceil
from uuid import UUID

from broker.coordinator.groups.records import Assignment, Partition

NAME = "simple"


def assign(
    subscriptions: Mapping[str, frozenset[UUID]],
    partitions: Mapping[UUID, frozenset[int]],
    present: Mapping[str, Assignment],
    *,
    is_homogeneous: bool,
) -> dict[str, dict[UUID, frozenset[int]]]:
    """`subscriptions` are the topics of each member, `partitions` the partitions of each topic that may be assigned,
    and `present` is the target assignment until now. `is_homogeneous`: all members subscribe to the same names, those
    of topics that do not exist included."""
    members, topics = sorted(subscriptions), sorted(frozenset[UUID]().union(*subscriptions.values()))
    had = {
        member: {(topic, index) for topic, indexes in present.get(member, {}).items() for index in indexes}
        for member in members
    }
    places = {topic: [(topic, index) for index in sorted(partitions.get(topic, ()))] for topic in topics}
    if is_homogeneous:
        mine = {member: {place for place in had[member] if place[0] in places} for member in members}
        found = _Spreading(members, [place for topic in topics for place in places[topic]], mine).spread()
        return {member: _by_topic(found[member]) for member in members}
    result = {member: {place for place in had[member] if place[0] not in places} for member in members}
    readers_of: dict[UUID, list[str]] = {topic: [] for topic in topics}
    for member in members:
        for topic in subscriptions[member]:
            readers_of[topic].append(member)
    for topic, readers in readers_of.items():
        mine = {member: {(topic, index) for index in present.get(member, {}).get(topic, ())} for member in readers}
        for member, taken in _Spreading(readers, places[topic], mine).spread().items():
            result[member] |= taken
    return {member: _by_topic(result[member]) for member in members}


class _Spreading:
    """Spreads partitions over members that all may read each of them."""

    def __init__(self, members: Sequence[str], places: Sequence[Partition], had: Mapping[str, set[Partition]]) -> None:
        self._members = members
        self._taken = {member: set(had[member]) for member in members}
        self._sharing = -(-len(members) // len(places)) if places else 0
        self._wanted = _wanted_counts(members, self._sharing * len(places))
        self._readers: dict[Partition, set[str]] = {place: set() for place in places}
        for member, taken in self._taken.items():
            for place in taken:
                self._readers.setdefault(place, set()).add(member)

    def spread(self) -> dict[str, set[Partition]]:
        self._revoke_from_members()
        self._revoke_from_partitions()
        self._assign_missing()
        return self._taken

    def _revoke_from_members(self) -> None:
        for member in self._members:
            taken = self._taken[member]
            for place in sorted(taken)[: max(0, len(taken) - self._wanted[member])]:
                self._revoke(member, place)

    def _revoke_from_partitions(self) -> None:
        for place, readers in self._readers.items():
            for member in sorted(readers)[: max(0, len(readers) - self._sharing)]:
                self._revoke(member, place)

    def _revoke(self, member: str, place: Partition) -> None:
        self._taken[member].discard(place)
        self._readers[place].discard(member)

    def _assign_missing(self) -> None:
        """Goes round the members that want more. Once a whole round gives nothing to a partition, Kafka gives nothing
        to those behind it either."""
        hungry = [member for member in self._members if len(self._taken[member]) < self._wanted[member]]
        position, has_given = 0, False
        for place in sorted(self._readers):
            while len(self._readers[place]) < self._sharing and hungry:
                if position == len(hungry):
                    if not has_given:
                        break
                    position, has_given = 0, False
                member = hungry[position]
                position += 1
                if member in self._readers[place]:
                    continue
                self._readers[place].add(member)
                self._taken[member].add(place)
                has_given = True
                if len(self._taken[member]) >= self._wanted[member]:
                    position -= 1
                    del hungry[position]


def _wanted_counts(members: Sequence[str], total: int) -> dict[str, int]:
    """How many partitions each member should have. Kafka rounds with doubles, so this does too."""
    each = total / len(members) if members else 0.0
    return {member: ceil(each * (index + 1)) - ceil(each * index) for index, member in enumerate(members)}


def _by_topic(places: Collection[Partition]) -> dict[UUID, frozenset[int]]:
    topics: dict[UUID, set[int]] = {}
    for topic, index in places:
        topics.setdefault(topic, set()).add(index)
    return {topic: frozenset(indexes) for topic, indexes in sorted(topics.items())}
