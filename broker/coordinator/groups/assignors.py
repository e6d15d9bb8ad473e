"""Server-side assignors of KIP-848: `uniform` (balanced, sticky) and `range` (contiguous, co-partitioned).

They are pure functions of subscriptions, topics and the previous assignment. They are deterministic: members and topics
are taken in sorted order. So after a fail-over the new coordinator computes the same assignment as its predecessor.
Shown by tests/broker_coordinator/test_coordinator_assignors.py.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias
from uuid import UUID

from broker.coordinator.groups.records import Assignment

# How often `uniform` looks at all topics again to make different subscriptions even. A few passes are enough, unless
# partitions must wander along a chain of members, each of which shares a topic only with the next one.
PASSES_MAX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    member_id: str
    instance_id: str | None
    topic_ids: frozenset[UUID]  # topics that it subscribes to and that exist
    owned: Assignment  # its previous target assignment


Result: TypeAlias = dict[str, dict[UUID, frozenset[int]]]
Assignor: TypeAlias = Callable[[tuple[MemberSpec, ...], Mapping[UUID, int]], Result]
_Partition: TypeAlias = tuple[UUID, int]


def assign_range(members: tuple[MemberSpec, ...], topics: Mapping[UUID, int]) -> Result:
    """The partitions of each topic are cut into contiguous ranges, one for each subscriber. If they do not divide
    evenly, the first ranges have one more. Static members keep their place in the order."""
    result: dict[str, dict[UUID, frozenset[int]]] = {member.member_id: {} for member in members}
    ranked = sorted(members, key=lambda each: (each.instance_id is None, each.instance_id or each.member_id))
    profiles = _Profiles(ranked, topics)
    for topic_id, numbers in profiles.of_topic.items():
        subscribers = profiles.subscribers(topic_id)
        if not subscribers:
            continue
        partitions = topics[topic_id]
        share, longer = divmod(partitions, subscribers)
        begin = 0
        # If there are more subscribers than partitions, the last ones get nothing.
        places = sorted(chain.from_iterable(profiles.places[number] for number in numbers))
        for position, place in enumerate(places[:partitions]):
            end = begin + share + (1 if position < longer else 0)
            result[ranked[place].member_id][topic_id] = frozenset(range(begin, end))
            begin = end
    return result


def assign_uniform(members: tuple[MemberSpec, ...], topics: Mapping[UUID, int]) -> Result:
    """The assignment is as even as the subscriptions allow. Among equally even assignments, it takes one that moves few
    partitions.

    A member keeps its partitions unless it has more than its share. Then each free partition goes to the subscriber
    with the fewest. Finally partitions move from members with more to members with fewer, as long as that makes the
    assignment more even, but in at most PASSES_MAX passes.
    """
    work = _Work(members, topics)
    work.keep_owned()
    work.hand_out()
    if len({member.topic_ids for member in members}) > 1:  # otherwise keep_owned already made it even
        work.even_out()
    return work.result()


ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}


class _Profiles:
    """Members with the same subscription have one profile. A thousand members may subscribe to thousands of topics, but
    there are few different subscriptions. So work grows with those, and not with members times topics."""

    def __init__(self, members: Sequence[MemberSpec], topics: Iterable[UUID]) -> None:
        by_subscription: dict[frozenset[UUID], list[int]] = {}
        for place, member in enumerate(members):
            by_subscription.setdefault(member.topic_ids, []).append(place)
        # Each profile, by its number, has the places of its members in `members`, ascending.
        self.places = list(by_subscription.values())
        # the numbers of the profiles that subscribe to a topic, ascending; topics are in their order
        self.of_topic: dict[UUID, list[int]] = {topic_id: [] for topic_id in sorted(topics)}
        for number, topic_ids in enumerate(by_subscription):
            for topic_id in topic_ids:
                numbers = self.of_topic.get(topic_id)
                if numbers is not None:
                    numbers.append(number)

    def subscribers(self, topic_id: UUID) -> int:
        return sum(len(self.places[number]) for number in self.of_topic[topic_id])


class _Work:
    def __init__(self, members: tuple[MemberSpec, ...], topics: Mapping[UUID, int]) -> None:
        self._members = sorted(members, key=lambda each: each.member_id)
        self._topics = topics
        self._profiles = _Profiles(self._members, topics)
        self._load = {member.member_id: 0 for member in self._members}  # number of partitions
        self._owner: dict[_Partition, str] = {}
        # By profile, a heap of (load, member). An entry counts only if it tells the present load.
        self._heaps = [[(0, self._members[place].member_id) for place in places] for places in self._profiles.places]
        self._heap_of = {member_id: heap for heap in self._heaps for _, member_id in heap}

    def _give(self, partition: _Partition, member_id: str) -> None:
        former = self._owner.get(partition)
        if former is not None:
            self._change_load(former, -1)
        self._owner[partition] = member_id
        self._change_load(member_id, 1)

    def _change_load(self, member_id: str, change: int) -> None:
        self._load[member_id] += change
        heapq.heappush(self._heap_of[member_id], (self._load[member_id], member_id))

    def _least(self, number: int) -> tuple[int, str, int]:
        """(load, member, profile) of the member of this profile with the fewest partitions."""
        heap = self._heaps[number]
        while heap[0][0] != self._load[heap[0][1]]:
            heapq.heappop(heap)
        return (*heap[0], number)

    def _takers(self, numbers: Iterable[int]) -> list[tuple[int, str, int]]:
        """A heap of the members that take first, one of each profile. After one took, `_least` replaces it."""
        takers = [self._least(number) for number in numbers]
        heapq.heapify(takers)
        return takers

    def keep_owned(self) -> None:
        is_same_for_all = len({member.topic_ids for member in self._members}) <= 1
        total = sum(count for topic_id, count in self._topics.items() if self._profiles.of_topic[topic_id])
        share, longer = divmod(total, max(1, len(self._members)))
        for member in self._members:
            owned = sorted(
                (topic_id, partition)
                for topic_id, partitions in member.owned.items()
                if topic_id in member.topic_ids and topic_id in self._topics
                for partition in partitions
                if partition < self._topics[topic_id]
            )
            free = [partition for partition in owned if partition not in self._owner]
            limit = len(free)
            if is_same_for_all:
                # With equal subscriptions the shares are known. No member keeps more than the share, and only `longer`
                # members keep one more.
                limit = share
                if longer and len(free) > share:
                    limit, longer = share + 1, longer - 1
            for partition in free[:limit]:
                self._give(partition, member.member_id)

    def hand_out(self) -> None:
        """Topics with few subscribers come first, because their partitions have the fewest possible owners."""
        sizes = {topic_id: self._profiles.subscribers(topic_id) for topic_id in self._profiles.of_topic}
        for topic_id in sorted(sizes, key=lambda each: (sizes[each], each)):
            free = [index for index in range(self._topics[topic_id]) if (topic_id, index) not in self._owner]
            takers = self._takers(self._profiles.of_topic[topic_id]) if free else []
            for index in free if takers else ():
                _, member_id, number = takers[0]
                self._give((topic_id, index), member_id)
                heapq.heapreplace(takers, self._least(number))

    def even_out(self) -> None:
        together: dict[tuple[int, ...], list[UUID]] = {}  # topics that the same profiles subscribe to
        for topic_id, numbers in self._profiles.of_topic.items():
            if numbers and self._topics[topic_id]:
                together.setdefault(tuple(numbers), []).append(topic_id)
        ordered = list(together.items())
        for _ in range(PASSES_MAX):
            lowest = min(self._load.values())
            if not any([self._even_out_among(numbers, topic_ids, lowest) for numbers, topic_ids in ordered]):
                return
            ordered.reverse()  # else what must pass from the last topics to the first ones would take a pass for each

    def _even_out_among(self, numbers: tuple[int, ...], topic_ids: Sequence[UUID], lowest: int) -> bool:
        """Moves partitions of these topics from the members with the most partitions to the subscribers with the
        fewest, as long as that makes it more even. Returns whether one was moved. No load is below `lowest`.

        A giver has the highest load of all that hold such a partition, and a taker's load is lower by at least two. So
        nobody both gives and takes, and no load falls below the lowest one. An entry of `givers` for a member that took
        meanwhile is too low. That does no harm, because the member has nothing to give.
        """
        held: dict[str, list[_Partition]] = {}
        for topic_id in topic_ids:
            for partition in range(self._topics[topic_id]):
                held.setdefault(self._owner[topic_id, partition], []).append((topic_id, partition))
        givers = [(-self._load[member_id], member_id) for member_id in held]
        heapq.heapify(givers)
        if -givers[0][0] - lowest <= 1:
            return False
        takers, has_moved = self._takers(numbers), False
        while givers and -givers[0][0] - takers[0][0] > 1:
            (negative, giver), (_, taker, number) = givers[0], takers[0]
            self._give(held[giver].pop(), taker)
            heapq.heapreplace(takers, self._least(number))
            if held[giver]:
                heapq.heapreplace(givers, (negative + 1, giver))
            else:
                heapq.heappop(givers)
            has_moved = True
        return has_moved

    def result(self) -> Result:
        found: dict[str, dict[UUID, set[int]]] = {member.member_id: {} for member in self._members}
        for (topic_id, partition), member_id in self._owner.items():
            found[member_id].setdefault(topic_id, set()).add(partition)
        return {
            member_id: {topic_id: frozenset(partitions) for topic_id, partitions in by_topic.items()}
            for member_id, by_topic in found.items()
        }
