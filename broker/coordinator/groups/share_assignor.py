"""Assigns the partitions of a share group (KIP-932), by the rules of Kafka's `simple` assignor. It is pure.

Every partition has a member, and every member has a partition if its topics have some. If there are more members than
partitions, several members read the same partition. Loads differ by at most one, and as many partitions as possible
stay with their members. If members subscribe to different topics, each topic is assigned separately.
Shown by tests/broker_coordinator/test_coordinator_share_assignor.py.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from broker.coordinator.groups.records import Assignment, Partition

NAME = "simple"

Item = TypeVar("Item", bound=Hashable)
Bin = TypeVar("Bin", bound=Hashable)


def assign(
    subscriptions: Mapping[str, frozenset[UUID]],
    partitions: Mapping[UUID, frozenset[int]],
    present: Mapping[str, Assignment],
) -> dict[str, dict[UUID, frozenset[int]]]:
    """`subscriptions` are the topics of each member, `partitions` the partitions of each topic that may be assigned,
    and `present` is the assignment until now."""
    found: dict[str, set[Partition]] = {member: set() for member in subscriptions}
    if len(set(subscriptions.values())) <= 1:
        topics = next(iter(subscriptions.values()), frozenset())
        places = [(topic, index) for topic in sorted(topics) for index in sorted(partitions.get(topic, ()))]
        _spread(sorted(subscriptions), places, present, found)
    else:
        for topic in sorted(frozenset().union(*subscriptions.values())):
            members = sorted(member for member, topics in subscriptions.items() if topic in topics)
            _spread(members, [(topic, index) for index in sorted(partitions.get(topic, ()))], present, found)
    return {member: _by_topic(taken) for member, taken in found.items()}


def _spread(
    members: Sequence[str],
    places: Sequence[Partition],
    present: Mapping[str, Assignment],
    found: dict[str, set[Partition]],
) -> None:
    if not members or not places:
        return
    had = {
        (member, (topic, index))
        for member in members
        for topic, indexes in present.get(member, {}).items()
        for index in indexes
    }
    if len(members) <= len(places):
        owners = {place: member for member, place in sorted(had)}
        for place, member in _balanced(places, members, owners).items():
            found[member].add(place)
        return
    allowed = set(places)
    homes = {member: place for member, place in sorted(had, reverse=True) if place in allowed}
    for member, place in _balanced(members, places, homes).items():
        found[member].add(place)


def _balanced(items: Sequence[Item], bins: Sequence[Bin], before: Mapping[Item, Bin]) -> dict[Item, Bin]:
    """Puts each item into one bin. The sizes of the bins differ by at most one."""
    least, more = divmod(len(items), len(bins))
    loads = dict.fromkeys(bins, 0)
    found: dict[Item, Bin] = {}
    for item in items:
        home = before.get(item)
        if home is None or home not in loads:
            continue
        if loads[home] < least or (loads[home] == least and more > 0):
            more -= loads[home] == least
            loads[home] += 1
            found[item] = home
    for item in items:
        if item not in found:
            emptiest = min(bins, key=lambda each: loads[each])
            loads[emptiest] += 1
            found[item] = emptiest
    return found


def _by_topic(places: set[Partition]) -> dict[UUID, frozenset[int]]:
    topics: dict[UUID, set[int]] = {}
    for topic, index in places:
        topics.setdefault(topic, set()).add(index)
    return {topic: frozenset(indexes) for topic, indexes in sorted(topics.items())}
