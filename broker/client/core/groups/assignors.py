"""Which member of a classic group reads which partition: range, roundrobin, sticky, cooperative-sticky. The leader runs
it.

Pure and deterministic: members and topics are taken in sorted order. range and roundrobin give the same result as
Java's client for the same members. The sticky ones keep Java's promises (as even as the subscriptions allow, few
moves), but may choose differently. Rack awareness (KIP-881) is left out. Shown by
tests/broker_client/test_client_assignors.py.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from broker.client.core.batch import TopicPartition
from broker.client.core.config import ASSIGNOR_CLASSES
from broker.client.core.groups.encodings import (
    Subscription,
    decode_cooperative_user_data,
    decode_sticky_user_data,
    encode_cooperative_user_data,
    encode_sticky_user_data,
)
from broker.wire.errors import RemoteProtocolError

_COOPERATIVE_USER_DATA_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    member_id: str
    instance_id: str | None
    subscription: Subscription

    @property
    def rank(self) -> tuple[bool, str]:
        """Static members come first, by their group.instance.id. So they keep their share when they come back
        (KIP-345)."""
        return (self.instance_id is None, self.instance_id or self.member_id)


Assignment: TypeAlias = dict[str, set[TopicPartition]]
Assign: TypeAlias = Callable[[tuple[Member, ...], Mapping[str, int]], Assignment]


class RebalanceProtocol(Enum):
    """EAGER: a member gives up everything before it joins. COOPERATIVE: it gives up only what moves, and then joins
    once more."""

    EAGER = "eager"
    COOPERATIVE = "cooperative"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignor:
    name: str
    java_class: str
    protocols: frozenset[RebalanceProtocol]
    assign: Assign
    # takes (owned partitions, generation in which they were assigned)
    user_data: Callable[[frozenset[TopicPartition], int], bytes | None]


def _empty(members: tuple[Member, ...]) -> Assignment:
    return {member.member_id: set() for member in members}


def assign_range(members: tuple[Member, ...], partition_counts: Mapping[str, int]) -> Assignment:
    """The partitions of each topic are cut into contiguous ranges, one for each subscriber. If they do not divide
    evenly, the first ranges have one more."""
    result = _empty(members)
    for topic, count in sorted(partition_counts.items()):
        readers = sorted((each for each in members if topic in each.subscription.topics), key=lambda each: each.rank)
        if not readers:
            continue
        share, longer = divmod(count, len(readers))
        begin = 0
        for index, member in enumerate(readers):
            end = begin + share + (1 if index < longer else 0)
            result[member.member_id].update(TopicPartition(topic, partition) for partition in range(begin, end))
            begin = end
    return result


def assign_round_robin(members: tuple[Member, ...], partition_counts: Mapping[str, int]) -> Assignment:
    """Partitions are dealt to the members in turn. A member that does not subscribe to the topic is skipped."""
    result = _empty(members)
    ranked = sorted(members, key=lambda each: each.rank)
    turns = itertools.cycle(ranked)
    subscribed = {topic for member in members for topic in member.subscription.topics}
    for topic in sorted(subscribed & partition_counts.keys()):
        for partition in range(partition_counts[topic]):
            member = next(each for each in turns if topic in each.subscription.topics)
            result[member.member_id].add(TopicPartition(topic, partition))
    return result


def assign_sticky(members: tuple[Member, ...], partition_counts: Mapping[str, int]) -> Assignment:
    work = _Sticky(members, partition_counts, owners_of(members))
    work.keep()
    work.hand_out()
    work.even_out()
    return {member_id: set(held) for member_id, held in work.held.items()}


def assign_cooperative(members: tuple[Member, ...], partition_counts: Mapping[str, int]) -> Assignment:
    """As sticky, but a partition that another member still has is not given to any member yet (KIP-429). The owner sees
    that it lost the partition, gives it up and joins again. The next assignment gives the partition to its new
    owner."""
    result = assign_sticky(members, partition_counts)
    owners = owners_of(members)
    claims: dict[TopicPartition, set[str]] = {}
    for member in members:
        for partition in claimed(member)[0]:
            claims.setdefault(partition, set()).add(member.member_id)
    for member_id, held in result.items():
        held.difference_update(
            [each for each in held if owners.get(each) != member_id and claims.get(each, set()) - {member_id}]
        )
    return result


def claimed(member: Member) -> tuple[frozenset[TopicPartition], int]:
    """The partitions that a member says it owns, and since which generation. User data that cannot be decoded counts as
    no partitions."""
    subscription = member.subscription
    data = subscription.user_data or b""
    generation = subscription.generation
    try:
        if len(data) == _COOPERATIVE_USER_DATA_BYTES:
            generation = max(generation, decode_cooperative_user_data(data))
        elif data and not subscription.owned:
            return decode_sticky_user_data(data)
    except RemoteProtocolError:
        pass
    return subscription.owned, generation


def owners_of(members: tuple[Member, ...]) -> dict[TopicPartition, str]:
    """The owner of each partition. If two members claim a partition, the one with the later generation owns it. If both
    claim it in the same generation, neither owns it."""
    best: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in members:
        partitions, generation = claimed(member)
        for partition in partitions:
            known = best.get(partition)
            if known is None or generation > known[0]:
                best[partition] = (generation, member.member_id)
            elif generation == known[0]:
                best[partition] = (generation, None)
    return {partition: owner for partition, (_, owner) in best.items() if owner is not None}


class _Sticky:
    """Invariant: each partition of `_owner` is in exactly one `held` list, that of its owner."""

    def __init__(
        self, members: tuple[Member, ...], counts: Mapping[str, int], owners: Mapping[TopicPartition, str]
    ) -> None:
        self._members = sorted(members, key=lambda each: each.rank)
        self._topics = {member.member_id: member.subscription.topics & counts.keys() for member in members}
        self._readers = {
            topic: [each.member_id for each in self._members if topic in self._topics[each.member_id]]
            for topic in sorted(counts)
        }
        self._all = [
            TopicPartition(topic, partition)
            for topic in sorted(self._readers, key=lambda each: (len(self._readers[each]), each))
            if self._readers[topic]
            for partition in range(counts[topic])
        ]  # topics with few readers come first, because their partitions have the fewest possible owners
        self._before = owners
        self._owner: dict[TopicPartition, str] = {}
        self.held: dict[str, list[TopicPartition]] = {each.member_id: [] for each in self._members}

    def _give(self, partition: TopicPartition, member_id: str) -> None:
        self._owner[partition] = member_id
        self.held[member_id].append(partition)

    def keep(self) -> None:
        """Partitions stay with their owners. With equal subscriptions the shares are known: no member keeps more than
        its share, and only as many members as the remainder of the division keep one more."""
        is_same_for_all = len({frozenset(topics) for topics in self._topics.values()}) <= 1
        share, longer = divmod(len(self._all), max(1, len(self._members)))
        owned: dict[str, list[TopicPartition]] = {member_id: [] for member_id in self.held}
        for partition in self._all:
            owner = self._before.get(partition)
            if owner is not None and partition.topic in self._topics[owner]:
                owned[owner].append(partition)
        for member_id, partitions in owned.items():
            limit = len(partitions)
            if is_same_for_all and limit > share:
                limit = share + (1 if longer else 0)
                longer -= 1 if longer else 0
            for partition in sorted(partitions)[:limit]:
                self._give(partition, member_id)

    def hand_out(self) -> None:
        """Each free partition goes to the subscriber with the fewest partitions. Subscribers with equally many take
        turns, by rank."""
        for partition in self._all:
            if partition not in self._owner:
                self._give(partition, min(self._readers[partition.topic], key=lambda each: len(self.held[each])))

    def even_out(self) -> None:
        """Move partitions along a chain of members as long as one end has at least two more than the other. Each chain
        makes the sum of squared loads smaller, so this ends. The bound only protects against a defect."""
        for _ in range(len(self._all) * len(self._members) + 1):
            if not any(self._lighten(member_id) for member_id in sorted(self.held, key=self._load, reverse=True)):
                return
        raise AssertionError("an assignment that never becomes even")

    def _load(self, member_id: str) -> int:
        return len(self.held[member_id])

    def _lighten(self, start: str) -> bool:
        """Searches breadth first from `start` for a member that has at least two fewer. The shortest chain moves the
        fewest partitions."""
        reached: dict[str, tuple[str, TopicPartition]] = {}
        waiting = deque([start])
        while waiting:
            giver = waiting.popleft()
            for partition in sorted(self.held[giver], key=lambda each: self._before.get(each) == giver):
                for taker in self._readers[partition.topic]:
                    if taker == start or taker in reached:
                        continue
                    reached[taker] = (giver, partition)
                    if self._load(taker) <= self._load(start) - 2:
                        self._shift(start, taker, reached)
                        return True
                    waiting.append(taker)
        return False

    def _shift(self, start: str, end: str, reached: Mapping[str, tuple[str, TopicPartition]]) -> None:
        taker = end
        while taker != start:
            giver, partition = reached[taker]
            self.held[giver].remove(partition)
            self._give(partition, taker)
            taker = giver


def _no_user_data(owned: frozenset[TopicPartition], generation: int) -> bytes | None:
    return None


def _cooperative_user_data(owned: frozenset[TopicPartition], generation: int) -> bytes | None:
    return encode_cooperative_user_data(generation)


_EAGER = frozenset({RebalanceProtocol.EAGER})
ASSIGNORS: tuple[Assignor, ...] = (
    Assignor(
        name="range",
        java_class=ASSIGNOR_CLASSES["range"],
        protocols=_EAGER,
        assign=assign_range,
        user_data=_no_user_data,
    ),
    Assignor(
        name="roundrobin",
        java_class=ASSIGNOR_CLASSES["roundrobin"],
        protocols=_EAGER,
        assign=assign_round_robin,
        user_data=_no_user_data,
    ),
    Assignor(
        name="sticky",
        java_class=ASSIGNOR_CLASSES["sticky"],
        protocols=_EAGER,
        assign=assign_sticky,
        user_data=encode_sticky_user_data,
    ),
    Assignor(
        name="cooperative-sticky",
        java_class=ASSIGNOR_CLASSES["cooperative-sticky"],
        protocols=frozenset(RebalanceProtocol),
        assign=assign_cooperative,
        user_data=_cooperative_user_data,
    ),
)
ASSIGNORS_BY_NAME: Mapping[str, Assignor] = {name: each for each in ASSIGNORS for name in (each.name, each.java_class)}


def rebalance_protocol(names: tuple[str, ...]) -> RebalanceProtocol:
    """The best protocol that all these assignors support. If range is in the list, a member is eager whichever assignor
    is chosen, as in Java."""
    common = frozenset.intersection(*[ASSIGNORS_BY_NAME[name].protocols for name in names])
    return RebalanceProtocol.COOPERATIVE if RebalanceProtocol.COOPERATIVE in common else RebalanceProtocol.EAGER
