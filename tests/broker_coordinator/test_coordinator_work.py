"""The work of one event of a group coordinator grows with the size of the group, of its offsets or of the event.

It does not grow with a product of them: each event is one wake-up of the broker, which serves nobody else meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from group_world import REBALANCE_MS, SESSION_MS, WALL_OFFSET_MS, GroupWorld

from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.events import (
    CommitOffsets,
    CompleteTransaction,
    ConsumerHeartbeat,
    DeleteGroup,
    DeleteOffsets,
    DescribeClassicGroup,
    DescribeConsumerGroup,
    ExpireOffsets,
    FetchOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetToCommit,
    SyncGroup,
    Topic,
    TopicsChanged,
)
from broker.coordinator.runtime import Tick
from broker.node.features.share_groups.groups.config import ShareGroupConfig
from broker.node.features.share_groups.groups.events import DescribeShareGroup, ShareHeartbeat, SharesInitialized
from broker.node.features.share_groups.groups.requests import ShareGroups
from tests.work import Work, assert_linear

SIZE = 32
CONFIG = GroupConfig(
    group_initial_rebalance_delay_ms=0,
    group_consumer_assignment_interval_ms=0,
)
SHARE_CONFIG = ShareGroupConfig(group_share_assignment_interval_ms=0, group_share_max_size=1_000)


class Shard:
    """A group shard with topics `t0`, `t1` and so on, of one partition each. Nothing is checked after an event."""

    def __init__(self, size: int) -> None:
        self.size, self.now_ms, self._token = size, 0, 0
        self.names = tuple(f"t{index:04}" for index in range(size))
        self.topics = {name: Topic(topic_id=UUID(int=index + 1), partitions=1) for index, name in enumerate(self.names)}
        kinds = [partial(ShareGroups, config=SHARE_CONFIG)]
        self._shard = GroupWorld(config=CONFIG, topics=self.topics, kinds=kinds).shard

    def handle(self, event: object) -> list[Any]:
        return self._shard.handle(event, self.now_ms)

    def token(self) -> int:
        self._token += 1
        return self._token

    def doing(self, event: object) -> Callable[[], object]:
        return lambda: self.handle(event)

    # -- classic

    def join(self, member_id: str = "", protocols: tuple[str, ...] = ("range",)) -> JoinGroup:
        return JoinGroup(
            token=self.token(), group_id="g", member_id=member_id, instance_id=None, client_id="c", client_host="/h",
            protocol_type="consumer", protocols=tuple((name, b"\0\0\0\0\0\0\0\0\0\0") for name in protocols),
            session_timeout_ms=SESSION_MS, rebalance_timeout_ms=REBALANCE_MS, needs_known_member_id=False,
            can_skip_assignment=True,
        )  # fmt: skip

    def classic(self, members: int, protocols: tuple[str, ...] = ("range",)) -> list[str]:
        """A group whose members have all joined, and whose leader has not assigned yet."""
        for _ in range(members):
            self.handle(self.join(protocols=protocols))
        group: Any = self._shard.groups["g"]
        ids = list(group.members)
        for member_id in ids[:1]:  # the others still wait for it
            self.handle(self.join(member_id, protocols))
        return ids

    def sync(self, ids: list[str]) -> SyncGroup:
        group: Any = self._shard.groups["g"]
        return SyncGroup(
            token=self.token(), group_id="g", member_id=group.leader, instance_id=None, generation=group.generation,
            protocol_type="consumer", protocol="range", assignments=dict.fromkeys(ids, b"a"),
        )  # fmt: skip

    # -- offsets

    def commit(self, group_id: str = "o", producer_id: int = -1) -> CommitOffsets:
        offsets = tuple(
            OffsetToCommit(topic=name, partition=0, offset=1, leader_epoch=0, metadata="") for name in self.names
        )
        return CommitOffsets(
            token=self.token(), group_id=group_id, member_id="", instance_id=None, generation=-1, offsets=offsets,
            wall_ms=WALL_OFFSET_MS, producer_id=producer_id, producer_epoch=0,
        )  # fmt: skip

    # -- the new protocols

    def beat(self, number: int, epoch: int = 0, *, names: tuple[str, ...] | None = None) -> ConsumerHeartbeat:
        return ConsumerHeartbeat(
            token=self.token(), group_id="n", member_id=f"m{number:04}", member_epoch=epoch, instance_id=None,
            rack_id=None, rebalance_timeout_ms=REBALANCE_MS if epoch == 0 else -1, subscribed_topic_names=names,
            subscribed_topic_regex=None, server_assignor=None, owned={} if epoch == 0 else None, client_id="c",
            client_host="/h",
        )  # fmt: skip

    def consumers(self) -> None:
        for number in range(self.size):
            self.handle(self.beat(number, names=self.names[: self.size - number % 3]))

    def share_beat(self, number: int, epoch: int = 0, *, names: tuple[str, ...] | None = None) -> ShareHeartbeat:
        return ShareHeartbeat(
            token=self.token(), group_id="s", member_id=f"m{number:04}", member_epoch=epoch, rack_id=None,
            subscribed_topic_names=names, client_id="c", client_host="/h",
        )  # fmt: skip

    def shares(self) -> None:
        for number in range(self.size):
            self.handle(self.share_beat(number, names=self.names))
        partitions = {topic.topic_id: frozenset([0]) for topic in self.topics.values()}
        self.handle(SharesInitialized(token=self.token(), group_id="s", partitions=partitions, is_done=True))


def a_classic_join(size: int) -> Callable[[], object]:
    shard = Shard(size)
    shard.classic(size)
    return shard.doing(shard.join())


def a_classic_join_with_protocols(size: int) -> Callable[[], object]:
    """The votes of all members for all protocols were counted anew at each join."""
    shard = Shard(size)
    names = tuple(f"p{number}" for number in range(size))
    shard.classic(size, names)
    return shard.doing(shard.join(protocols=names))


def an_incompatible_classic_join(size: int) -> Callable[[], object]:
    shard = Shard(size)
    shard.classic(size, tuple(f"p{number}" for number in range(size)))
    return shard.doing(shard.join(protocols=tuple(f"q{number}" for number in range(size))))


def a_sync_of_the_leader(size: int) -> Callable[[], object]:
    shard = Shard(size)
    ids = shard.classic(size)
    shard.now_ms = REBALANCE_MS
    for each in ids[1:]:
        shard.handle(shard.join(each))
    return shard.doing(shard.sync(ids))


def a_classic_heartbeat(size: int) -> Callable[[], object]:
    shard = Shard(size)
    (first, *_) = shard.classic(size)
    return shard.doing(Heartbeat(token=shard.token(), group_id="g", member_id=first, instance_id=None, generation=1))


def all_leave(size: int) -> Callable[[], object]:
    shard = Shard(size)
    ids = shard.classic(size)
    return shard.doing(LeaveGroup(token=shard.token(), group_id="g", members=tuple((each, None) for each in ids)))


def all_sessions_end(size: int) -> Callable[[], object]:
    shard = Shard(size)
    shard.classic(size)
    shard.consumers()
    shard.shares()
    shard.now_ms = 10**9
    return shard.doing(Tick())


def a_classic_description(size: int) -> Callable[[], object]:
    shard = Shard(size)
    shard.classic(size)
    return shard.doing(DescribeClassicGroup(token=shard.token(), group_id="g"))


def a_commit(size: int) -> Callable[[], object]:
    shard = Shard(size)
    return shard.doing(shard.commit())


def a_fetch_beside_open_transactions(size: int) -> Callable[[], object]:
    """Each partition was looked up in each open transaction."""
    shard = Shard(size)
    shard.handle(shard.commit())
    for producer_id in range(size):
        shard.handle(replace(shard.commit(producer_id=producer_id), offsets=shard.commit().offsets[:1]))
    topics = dict.fromkeys(shard.names, (0,))
    return shard.doing(
        FetchOffsets(
            token=shard.token(), group_id="o", member_id=None, member_epoch=-1, topics=topics, require_stable=True
        )
    )


def a_transaction_ends(size: int) -> Callable[[], object]:
    shard = Shard(size)
    shard.handle(shard.commit(producer_id=1))
    return shard.doing(CompleteTransaction(producer_id=1, producer_epoch=0, is_commit=True))


def offsets_are_deleted(size: int) -> Callable[[], object]:
    shard = Shard(size)
    shard.handle(shard.commit())
    places = tuple((name, 0) for name in shard.names)
    return shard.doing(DeleteOffsets(token=shard.token(), group_id="o", partitions=places))


def a_group_is_deleted(size: int) -> Callable[[], object]:
    shard = Shard(size)
    shard.handle(shard.commit())
    return shard.doing(DeleteGroup(token=shard.token(), group_id="o"))


def topics_are_deleted(size: int) -> Callable[[], object]:
    shard = Shard(size)
    shard.handle(shard.commit())
    shard.consumers()
    shard.shares()
    shard.handle(TopicsChanged(topics={}, deleted=frozenset(shard.names)))
    return shard.doing(Tick())


def offsets_of_members_do_not_expire(size: int) -> Callable[[], object]:
    """For each offset, the subscriptions of all members were put together."""
    shard = Shard(size)
    shard.handle(shard.commit("n"))
    shard.consumers()
    return shard.doing(ExpireOffsets(wall_ms=10**15))


def offsets_of_nobody_expire(size: int) -> Callable[[], object]:
    shard = Shard(size)
    for number in range(size):
        shard.handle(replace(shard.commit(f"o{number}"), offsets=shard.commit().offsets[:1]))
    return shard.doing(ExpireOffsets(wall_ms=10**15))


def groups_are_listed(size: int) -> Callable[[], object]:
    shard = Shard(size)
    shard.consumers()
    for number in range(size):
        shard.handle(replace(shard.commit(f"o{number}"), offsets=shard.commit().offsets[:1]))
    return shard.doing(ListGroups(token=shard.token()))


def a_consumer_joins(size: int) -> Callable[[], object]:
    shard = Shard(size)
    shard.consumers()
    return shard.doing(shard.beat(9_999, names=shard.names[1:]))


def a_settled_heartbeat(size: int) -> Callable[[], object]:
    shard = Shard(size)
    shard.handle(shard.beat(0, names=shard.names))
    return shard.doing(shard.beat(0, 2))


def a_consumer_description(size: int) -> Callable[[], object]:
    shard = Shard(size)
    shard.consumers()
    return shard.doing(DescribeConsumerGroup(token=shard.token(), group_id="n"))


def a_share_member_joins(size: int) -> Callable[[], object]:
    """The names of all members were put together, several times for each heartbeat."""
    shard = Shard(size)
    shard.shares()
    return shard.doing(shard.share_beat(9_999, names=shard.names))


def a_share_description(size: int) -> Callable[[], object]:
    shard = Shard(size)
    shard.shares()
    return shard.doing(DescribeShareGroup(token=shard.token(), group_id="s"))


CASES = [
    a_classic_join, a_classic_join_with_protocols, an_incompatible_classic_join, a_sync_of_the_leader,
    a_classic_heartbeat, all_leave, all_sessions_end, a_classic_description, a_commit,
    a_fetch_beside_open_transactions, a_transaction_ends, offsets_are_deleted, a_group_is_deleted, topics_are_deleted,
    offsets_of_members_do_not_expire, offsets_of_nobody_expire, groups_are_listed, a_consumer_joins,
    a_settled_heartbeat, a_consumer_description, a_share_member_joins, a_share_description,
]  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_twice_the_size_makes_twice_the_work(case: Callable[[int], Callable[[], object]]) -> None:
    assert_linear(case, SIZE)


def test_the_heartbeat_of_a_settled_share_member_looks_at_no_topic() -> None:
    def beat(size: int) -> int:
        shard = Shard(size)
        shard.shares()
        for number in (0, 0, 0):
            (reply,) = [each for each in shard.handle(shard.share_beat(number)) if hasattr(each, "response")]
        epoch = reply.response.member_epoch
        shard.handle(shard.share_beat(0, epoch))
        with Work() as work:
            shard.handle(shard.share_beat(0, epoch))
        return work.steps

    members = 3  # lines for each member, to find the next session that ends
    assert beat(2 * SIZE) - beat(SIZE) <= members * SIZE
