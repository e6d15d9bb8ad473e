"""The target assignment of a group is computed at most once in group.(consumer|share).assignment.interval.ms
(KIP-1263). The first one is computed at once."""

from __future__ import annotations

import random
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from group_world import WALL_OFFSET_MS, GroupWorld

from broker.coordinator.groups.assignment_interval import is_assignment_due
from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.events import GroupSettingsChanged, Topic, TopicsChanged
from broker.coordinator.groups.shard import GroupShard
from broker.coordinator.runtime import Loaded, Reply
from broker.node.features.share_groups.groups.config import ShareGroupConfig
from broker.node.features.share_groups.groups.events import (
    ShareHeartbeat,
    ShareHeartbeatResult,
    ShareSettingsChanged,
    SharesInitialized,
)
from broker.node.features.share_groups.groups.requests import ShareGroups
from broker.wire.errors import ErrorCode

INTERVAL_MS = 1_000
CONFIG = GroupConfig(group_initial_rebalance_delay_ms=0)  # the interval is Kafka's default
FOUR, TWO = 4, 2  # partitions


def count(answer: Any) -> int | None:
    """How many partitions the answer assigns. None: it says nothing of them."""
    return None if answer.assignment is None else sum(len(each) for each in answer.assignment.values())


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld(config=CONFIG)


@pytest.mark.parametrize(
    ("last_ms", "interval_ms", "wall_ms", "is_due"),
    [
        (0, 1_000, 5, True),  # never
        (5_000, 1_000, 5_000, False),
        (5_000, 1_000, 5_999, False),
        (5_000, 1_000, 6_000, True),
        (5_000, 0, 5_000, True),
        (5_000, 1_000, 4_999, True),  # another coordinator's clock was ahead
    ],
)
def test_when_an_assignment_is_due(last_ms: int, interval_ms: int, wall_ms: int, is_due: bool) -> None:
    assert is_assignment_due(last_ms=last_ms, interval_ms=interval_ms, wall_ms=wall_ms) is is_due


def test_the_first_assignment_is_made_at_once_and_the_next_one_after_the_interval(world: GroupWorld) -> None:
    first = world.beat("a", 0)
    assert count(first) == FOUR
    joined = world.beat("b", 0)
    assert (joined.error_code, joined.member_epoch, count(joined)) == (ErrorCode.none, first.member_epoch, 0)
    world.pass_ms(INTERVAL_MS - 1)
    assert world.beat("a", first.member_epoch).member_epoch == first.member_epoch
    world.pass_ms(1)
    moved = world.beat("b", joined.member_epoch)
    assert moved.member_epoch > joined.member_epoch
    assert count(world.beat("a", first.member_epoch)) == FOUR - 2  # it has to give up two


def test_changes_within_the_interval_have_one_assignment_together(world: GroupWorld) -> None:
    first = world.beat("a", 0)
    for member in ("b", "c", "d"):
        world.beat(member, 0)
    world.pass_ms(INTERVAL_MS)
    told = world.beat("b", first.member_epoch)
    assert told.member_epoch == first.member_epoch + 3, "each change raised the epoch, as in Apache Kafka"
    assert count(world.beat("a", first.member_epoch)) == 1


def test_a_group_has_an_interval_of_its_own(world: GroupWorld) -> None:
    world.handle(GroupSettingsChanged(session_timeouts_ms={}, assignment_intervals_ms={"g": 0}))
    first = world.beat("a", 0)
    assert world.beat("b", 0).member_epoch > first.member_epoch
    world.handle(GroupSettingsChanged(session_timeouts_ms={}, assignment_intervals_ms={"g": 5_000}))
    before = world.beat("c", 0)
    world.pass_ms(INTERVAL_MS)
    assert world.beat("c", before.member_epoch).member_epoch == before.member_epoch
    world.pass_ms(4_000)
    assert world.beat("c", before.member_epoch).member_epoch > before.member_epoch


def test_the_interval_of_the_other_groups_may_change_at_run_time(world: GroupWorld) -> None:
    first = world.beat("a", 0)
    changed = GroupSettingsChanged(
        session_timeouts_ms={}, assignment_intervals_ms={"g": 5_000}, assignment_interval_ms=0
    )
    world.handle(changed)
    assert world.beat("b", 0).member_epoch == first.member_epoch, "this group has its own"
    world.handle(GroupSettingsChanged(session_timeouts_ms={}, assignment_interval_ms=0))
    assert world.beat("c", 0).member_epoch > first.member_epoch


def test_another_coordinator_knows_when_the_last_assignment_was_made(world: GroupWorld) -> None:
    first = world.beat("a", 0)
    world.pass_ms(INTERVAL_MS - 100)
    world.fail_over()
    joined = world.beat("b", 0)
    assert joined.member_epoch == first.member_epoch
    world.pass_ms(100)
    assert world.beat("b", joined.member_epoch).member_epoch > first.member_epoch


# -- share groups ------------------------------------------------------------------------------------------------------


class Shares:
    """A share group of topic `t`."""

    def __init__(self) -> None:
        self.now_ms, self._token = 0, 0
        kinds = [partial(ShareGroups, config=ShareGroupConfig())]
        self.shard = GroupShard(config=CONFIG, rng=random.Random(1), wall_offset_ms=WALL_OFFSET_MS, kinds=kinds)
        self.submit(Loaded(leader_epoch=0))
        self.submit(TopicsChanged(topics={"t": Topic(topic_id=UUID(int=1), partitions=TWO)}))

    def submit(self, event: object) -> list[Any]:
        actions = self.shard.handle(event, self.now_ms)
        self.shard.check_invariants()
        return [action.response for action in actions if isinstance(action, Reply)]

    def beat(self, member: str, epoch: int) -> ShareHeartbeatResult:
        self._token += 1
        (answer,) = self.submit(
            ShareHeartbeat(
                token=self._token,
                group_id="g",
                member_id=member,
                member_epoch=epoch,
                rack_id=None,
                subscribed_topic_names=("t",) if epoch == 0 else None,
                client_id="c",
                client_host="/h",
            )
        )
        result: ShareHeartbeatResult = answer
        if result.to_initialize:
            self._token += 1
            made = {topic_id: frozenset(offsets) for topic_id, offsets in result.to_initialize.items()}
            self.submit(SharesInitialized(token=self._token, group_id="g", partitions=made, is_done=True))
        return result


def test_a_share_group_has_its_partitions_once_the_interval_is_over() -> None:
    shares = Shares()
    first = shares.beat("a", 0)
    assert count(first) == 0  # the states are made only now
    joined = shares.beat("b", 0)
    assert (joined.member_epoch, count(joined)) == (first.member_epoch, 0)
    shares.now_ms = INTERVAL_MS - 1
    assert shares.beat("a", first.member_epoch).member_epoch == first.member_epoch
    shares.now_ms = INTERVAL_MS
    after = shares.beat("a", first.member_epoch)
    assert (after.member_epoch, count(after)) == (first.member_epoch + 2, 1)
    assert count(shares.beat("b", joined.member_epoch)) == 1


def test_a_share_group_has_an_interval_of_its_own() -> None:
    shares = Shares()
    shares.submit(ShareSettingsChanged(session_timeouts_ms={}, assignment_intervals_ms={"g": 0}))
    first = shares.beat("a", 0)
    assert count(shares.beat("a", first.member_epoch)) == TWO


def test_the_interval_of_the_other_share_groups_may_change_at_run_time() -> None:
    shares = Shares()
    shares.submit(ShareSettingsChanged(session_timeouts_ms={}, assignment_interval_ms=0))
    first = shares.beat("a", 0)
    assert count(shares.beat("a", first.member_epoch)) == TWO


def test_states_that_are_made_while_an_assignment_is_still_to_come_raise_no_epoch() -> None:
    shares = Shares()
    first = shares.beat("a", 0)
    joined = shares.beat("b", 0)  # the assignment of this epoch is still to come
    topics = {"t": Topic(topic_id=UUID(int=1), partitions=TWO + 1)}
    shares.submit(TopicsChanged(topics=topics))
    grown = shares.beat("b", joined.member_epoch)  # another partition, whose state is made
    assert grown.to_initialize
    shares.now_ms = INTERVAL_MS
    after = shares.beat("a", first.member_epoch)
    assert count(after) in (1, 2)
    assert after.member_epoch == first.member_epoch + 3  # the states, the second member, the topic that grew
