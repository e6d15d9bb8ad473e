"""Server-side assignors of KIP-848: `uniform` (balanced, sticky) and `range` (contiguous, co-partitioned).

They are pure functions of subscriptions, topics and the previous assignment. They are deterministic: members and topics
are taken in sorted order. So after a fail-over the new coordinator computes the same assignment as its predecessor.
Shown by tests/broker_coordinator/test_coordinator_assignors.py.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from broker.coordinator.groups.records import Assignment


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
    for topic_id, partitions in sorted(topics.items()):
        subscribers = [member.member_id for member in ranked if topic_id in member.topic_ids]
        if not subscribers:
            continue
        share, longer = divmod(partitions, len(subscribers))
        begin = 0
        for position, member_id in enumerate(subscribers):
            end = begin + share + (1 if position < longer else 0)
            if end > begin:
                result[member_id][topic_id] = frozenset(range(begin, end))
            begin = end
    return result


def assign_uniform(members: tuple[MemberSpec, ...], topics: Mapping[UUID, int]) -> Result:
    """The assignment is as even as the subscriptions allow. Among equally even assignments, it takes one that moves few
    partitions.

    A member keeps its partitions unless it has more than its share. Then each free partition goes to the subscriber
    with the fewest. Finally partitions move from members with more to members with fewer, as long as that makes the
    assignment more even.
    """
    work = _Work(members, topics)
    work.keep_owned()
    work.hand_out()
    if len({member.topic_ids for member in members}) > 1:  # otherwise keep_owned already made it even
        work.even_out()
    return work.result()


ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}


class _Work:
    def __init__(self, members: tuple[MemberSpec, ...], topics: Mapping[UUID, int]) -> None:
        self._members = sorted(members, key=lambda each: each.member_id)
        self._topics = topics
        self._subscribers: dict[UUID, list[str]] = {
            topic_id: [member.member_id for member in self._members if topic_id in member.topic_ids]
            for topic_id in sorted(topics)
        }
        self._held: dict[str, list[_Partition]] = {member.member_id: [] for member in self._members}
        self._owner: dict[_Partition, str] = {}

    def _give(self, partition: _Partition, member_id: str) -> None:
        self._owner[partition] = member_id
        self._held[member_id].append(partition)

    def keep_owned(self) -> None:
        is_same_for_all = len({member.topic_ids for member in self._members}) <= 1
        total = sum(count for topic_id, count in self._topics.items() if self._subscribers[topic_id])
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
        for topic_id in sorted(self._subscribers, key=lambda each: (len(self._subscribers[each]), each)):
            load = [(len(self._held[member_id]), member_id) for member_id in self._subscribers[topic_id]]
            if not load:
                continue
            heapq.heapify(load)
            for partition in range(self._topics[topic_id]):
                if (topic_id, partition) not in self._owner:
                    count, member_id = heapq.heappop(load)
                    self._give((topic_id, partition), member_id)
                    heapq.heappush(load, (count + 1, member_id))

    def even_out(self) -> None:
        """Each move makes the sum of squared loads smaller, so this ends. The bound only protects against a defect."""
        for _ in range(len(self._owner) * max(1, len(self._members))):
            if not self._move_one():
                return

    def _move_one(self) -> bool:
        for giver in sorted(self._held, key=lambda each: (-len(self._held[each]), each)):
            best: tuple[int, str, _Partition] | None = None
            for partition in self._held[giver]:
                for taker in self._subscribers[partition[0]]:
                    if len(self._held[taker]) + 1 < len(self._held[giver]):
                        candidate = (len(self._held[taker]), taker, partition)
                        best = candidate if best is None else min(best, candidate)
            if best is not None:
                _, taker, partition = best
                self._held[giver].remove(partition)
                self._give(partition, taker)
                return True
        return False

    def result(self) -> Result:
        result: Result = {}
        for member_id, held in self._held.items():
            by_topic: dict[UUID, set[int]] = {}
            for topic_id, partition in held:
                by_topic.setdefault(topic_id, set()).add(partition)
            result[member_id] = {topic_id: frozenset(partitions) for topic_id, partitions in by_topic.items()}
        return result
