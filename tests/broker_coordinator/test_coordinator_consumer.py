"""The new group protocol (KIP-848), rule by rule: epochs, reconciliation, fencing, static members, subscriptions."""

from __future__ import annotations

import random
from uuid import UUID

import pytest
from group_world import REBALANCE_MS, TOPICS, WALL_OFFSET_MS, GroupWorld
from group_world import consumer_group as group_of

from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.events import (
    DeleteGroup,
    DescribeConsumerGroup,
    DescribedConsumerGroup,
    GroupSettingsChanged,
    JoinResult,
    OffsetToCommit,
    Topic,
    TopicsChanged,
)
from broker.coordinator.groups.reconcile import MemberState
from broker.coordinator.groups.shard import GroupShard
from broker.coordinator.runtime import Loaded
from broker.wire.errors import ErrorCode

T, U = TOPICS["t"].topic_id, TOPICS["u"].topic_id
SESSION_MS = GroupConfig().group_consumer_session_timeout_ms


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld()


def t(*partitions: int) -> dict[UUID, frozenset[int]]:
    return {T: frozenset(partitions)}


def test_the_first_member_gets_everything_at_once(world: GroupWorld) -> None:
    result = world.beat("m", 0)
    assert (result.error_code, result.member_epoch, result.assignment) == (ErrorCode.none, 2, t(0, 1, 2, 3))
    later = world.beat("m", 2)
    assert (later.member_epoch, later.assignment) == (2, None)  # nothing changed: not told again
    assert group_of(world).state == "Stable"


def test_partitions_move_only_after_their_owner_gave_them_up(world: GroupWorld) -> None:
    world.beat("a", 0)
    joined = world.beat("b", 0)
    assert (joined.member_epoch, joined.assignment) == (3, {})  # all still with a
    told = world.beat("a", 2)
    assert (told.member_epoch, told.assignment) == (2, t(0, 1))
    assert world.beat("b", 3).assignment is None
    assert world.beat("a", 2, owned=t(0, 1, 2, 3)).member_epoch == 2  # not yet given up
    assert group_of(world).state == "Reconciling"
    assert world.beat("a", 2, owned=t(0, 1)).member_epoch == 3
    taken = world.beat("b", 3)
    assert (taken.member_epoch, taken.assignment) == (3, t(2, 3))
    assert group_of(world).state == "Stable"


def test_who_does_not_give_up_in_time_is_fenced_and_the_others_go_on(world: GroupWorld) -> None:
    world.beat("a", 0)
    world.beat("b", 0)
    world.beat("a", 2)
    for _ in range(3):
        world.pass_ms(REBALANCE_MS // 3)
        world.beat("b", 3)
    assert world.beat("a", 2).error_code is ErrorCode.unknown_member_id
    assert world.beat("b", group_of(world).members["b"].current.member_epoch).error_code is ErrorCode.none
    assert group_of(world).members["b"].current.assigned == t(0, 1, 2, 3)


def test_silence_for_a_session_frees_the_partitions(world: GroupWorld) -> None:
    world.beat("a", 0)
    world.beat("b", 0)
    world.beat("a", 2)
    world.beat("a", 2, owned=t(0, 1))
    world.beat("b", 3)
    world.pass_ms(SESSION_MS - 1)
    world.beat("b", 3)
    world.pass_ms(1)
    result = world.beat("b", 3)
    assert (result.member_epoch, result.assignment) == (4, t(0, 1, 2, 3))


def test_epochs_fence(world: GroupWorld) -> None:
    world.beat("a", 0)
    world.beat("b", 0)
    world.beat("a", 2, owned={})
    assert world.beat("a", 8).error_code is ErrorCode.fenced_member_epoch
    assert world.beat("stranger", 3).error_code is ErrorCode.unknown_member_id
    assert world.beat("x", 4, group_id="nowhere").error_code is ErrorCode.group_id_not_found


def test_a_lost_answer_is_given_again(world: GroupWorld) -> None:
    world.beat("a", 0)
    world.beat("b", 0)
    assert world.beat("a", 2, owned=t(0, 1)).member_epoch == 3
    # The answer never came: it still speaks of epoch 2, and sends all it has.
    again = world.beat("a", 2, owned=t(0, 1), rebalance_timeout_ms=REBALANCE_MS, subscribed_topic_names=("t",))
    assert (again.error_code, again.member_epoch, again.assignment) == (ErrorCode.none, 3, t(0, 1))
    assert world.beat("a", 2, owned=t(0, 3)).error_code is ErrorCode.fenced_member_epoch
    assert world.beat("a", 0).assignment == t(0, 1)  # or begins anew


def test_leaving_frees_at_once(world: GroupWorld) -> None:
    world.beat("a", 0)
    world.beat("b", 0)
    assert world.beat("a", -1).member_epoch == -1
    assert world.beat("b", 3).assignment == t(0, 1, 2, 3)
    world.beat("b", -1)
    assert group_of(world).state == "Empty"


def test_a_static_member_finds_its_partitions_again(world: GroupWorld) -> None:
    world.beat("a", 0, instance_id="i")
    world.beat("b", 0)
    world.beat("a", 2, owned=t(0, 1))
    world.beat("b", 3)
    epoch = group_of(world).epoch
    assert world.beat("a2", 0, instance_id="i").error_code is ErrorCode.unreleased_instance_id
    assert world.beat("a", -2, instance_id="i").member_epoch == -2
    back = world.beat("a2", 0, instance_id="i")
    assert (back.error_code, back.assignment) == (ErrorCode.none, t(0, 1))
    assert group_of(world).epoch == epoch, "nobody else was disturbed"
    assert world.beat("a", epoch, instance_id="i").error_code is ErrorCode.fenced_instance_id
    assert world.beat("a2", -1, instance_id="i").error_code is ErrorCode.none
    assert world.beat("b", 3).assignment == t(0, 1, 2, 3)


def test_a_static_member_that_stays_away_is_forgotten_after_its_session(world: GroupWorld) -> None:
    world.beat("a", 0, instance_id="i")
    world.beat("a", -2, instance_id="i")
    world.pass_ms(SESSION_MS)
    assert group_of(world).members == {}


def test_a_topic_that_grows_is_assigned_anew(world: GroupWorld) -> None:
    world.beat("m", 0)
    world.topics["t"] = Topic(topic_id=T, partitions=6)
    world.handle(TopicsChanged(topics=dict(world.topics)))
    result = world.beat("m", 2)
    assert (result.member_epoch, result.assignment) == (3, t(0, 1, 2, 3, 4, 5))


def test_the_assignor_that_most_members_ask_for_is_used(world: GroupWorld) -> None:
    world.beat("a", 0, server_assignor="range")
    world.beat("b", 0)
    found = world.answers[world.ask(DescribeConsumerGroup(token=world.token(), group_id="g"))]
    assert isinstance(found, DescribedConsumerGroup)
    assert found.assignor == "range"
    assert [member.target for member in found.members] == [t(0, 1), t(2, 3)]


def test_commits_are_taken_of_the_current_epoch_only(world: GroupWorld) -> None:
    world.beat("m", 0)
    assert world.commit(member_id="m", generation=2).partitions == {("t", 0): ErrorCode.none}
    assert world.commit(member_id="m", generation=3).error_code is ErrorCode.stale_member_epoch
    old = world.commit(member_id="m", generation=2, knows_member_epochs=False)
    assert old.error_code is ErrorCode.unsupported_version
    assert world.commit(member_id="x", generation=2).error_code is ErrorCode.unknown_member_id
    assert world.commit().error_code is ErrorCode.unknown_member_id
    assert world.fetch(member_id="m", member_epoch=0).error_code is ErrorCode.stale_member_epoch
    assert world.fetch(member_id="m", member_epoch=2).partitions["t", 0].offset == 5


def test_a_commit_of_an_earlier_epoch_counts_for_partitions_held_ever_since(world: GroupWorld) -> None:
    """KIP-1251: the epoch rose while the commit was on its way."""

    def commit(partition: int, epoch: int) -> ErrorCode:
        place = OffsetToCommit(topic="t", partition=partition, offset=1, leader_epoch=-1, metadata="", topic_id=T)
        found = world.commit(member_id="b", generation=epoch, offsets=(place,)).error_code
        assert isinstance(found, ErrorCode)
        return found

    world.beat("a", 0)
    world.beat("b", 0)
    world.beat("a", 2, owned=t(0, 1))
    world.beat("b", 3)  # has 2 and 3 since epoch 3
    world.beat("a", -1)
    world.beat("b", 3)  # has 0 and 1 since epoch 4
    world.fail_over()
    assert [commit(2, 4), commit(2, 3), commit(0, 4)] == [ErrorCode.none] * 3
    assert commit(0, 3) is ErrorCode.stale_member_epoch
    assert commit(2, 2) is ErrorCode.stale_member_epoch
    assert commit(2, 5) is ErrorCode.stale_member_epoch


def test_a_new_coordinator_goes_on_with_every_epoch_and_assignment(world: GroupWorld) -> None:
    world.beat("a", 0)
    world.beat("b", 0)
    world.beat("a", 2)
    world.fail_over()
    assert world.beat("a", 2, owned=t(0, 1)).member_epoch == 3
    assert world.beat("b", 3).assignment == t(2, 3)


def test_a_member_keeps_its_epoch_when_the_cleaner_left_its_record_behind_its_assignment(world: GroupWorld) -> None:
    """What the member says of itself is written again later than what it has, for example when its address changes."""
    joined = world.beat("a", 0)
    assert world.beat("a", joined.member_epoch, client_host="/127.0.0.2").error_code is ErrorCode.none
    world.beat("b", 0)  # has nothing until a gives partitions up
    world.fail_over()
    found = world.beat("a", joined.member_epoch, owned=t(0, 1, 2, 3))
    assert found.error_code is ErrorCode.none
    assert world.beat("b", 0).assignment == {}, "a has all partitions until it gives some up"


def test_a_group_changes_its_protocol_only_while_it_is_empty() -> None:
    config = GroupConfig(
        group_consumer_assignment_interval_ms=0,
        group_initial_rebalance_delay_ms=0,
    )
    world = GroupWorld(config=config)
    world.beat("m", 0)
    world.commit(member_id="m", generation=2)
    refused = world.answer(world.join(), JoinResult)
    assert refused.error_code is ErrorCode.inconsistent_group_protocol
    assert world.heartbeat("m", 2) is ErrorCode.unknown_member_id, "it is no member of the classic protocol"
    world.beat("m", -1)
    token = world.join()
    world.pass_ms(0)
    joined = world.answer(token, JoinResult)
    assert joined.error_code is ErrorCode.none
    assert world.beat("m", 0).error_code is ErrorCode.group_id_not_found
    world.leave((joined.member_id, None))
    assert world.beat("m", 0).error_code is ErrorCode.none
    assert world.fetch().partitions["t", 0].offset == 5, "offsets stay"
    assert world.replayed().durable() == world.shard.durable()


def test_a_group_with_members_is_not_deleted_and_an_empty_one_leaves_nothing(world: GroupWorld) -> None:
    world.beat("m", 0)
    assert world.answers[world.ask(DeleteGroup(token=world.token(), group_id="g"))] is ErrorCode.non_empty_group
    world.beat("m", -1)
    assert world.answers[world.ask(DeleteGroup(token=world.token(), group_id="g"))] is ErrorCode.none
    assert world.shard.groups == {}
    assert world.replayed().durable() == ({}, ({}, {}))
    assert world.answers[world.ask(DeleteGroup(token=world.token(), group_id="g"))] is ErrorCode.group_id_not_found


def test_a_full_group_takes_nobody() -> None:
    world = GroupWorld(config=GroupConfig(group_consumer_max_size=1, group_consumer_assignment_interval_ms=0))
    world.beat("a", 0)
    assert world.beat("b", 0).error_code is ErrorCode.group_max_size_reached
    assert world.beat("a", 0).error_code is ErrorCode.none


def test_a_group_may_have_a_session_timeout_of_its_own(world: GroupWorld) -> None:
    world.beat("m", 0)
    world.handle(GroupSettingsChanged(session_timeouts_ms={"g": SESSION_MS + 5_000, "other": 1}))
    world.pass_ms(SESSION_MS - 1)
    assert world.beat("m", 2).error_code is ErrorCode.none, "from this heartbeat on the new one counts"
    world.pass_ms(SESSION_MS + 4_999)
    assert "m" in group_of(world).members
    world.handle(GroupSettingsChanged(session_timeouts_ms={}))
    world.pass_ms(1)
    assert "m" not in group_of(world).members, "the heartbeat was the last one"


def test_a_session_timeout_of_a_group_counts_right_after_a_fail_over(world: GroupWorld) -> None:
    world.beat("m", 0)
    shard = GroupShard(
        config=world.config,
        rng=random.Random(3),
        wall_offset_ms=WALL_OFFSET_MS,
        session_timeouts_ms={"g": SESSION_MS + 5_000},
    )
    for entry in world.log:
        shard.replay(entry)
    world.shard = shard
    world._appended = 0
    world.handle(Loaded(leader_epoch=1))
    world.handle(TopicsChanged(topics=world.topics))
    world.pass_ms(SESSION_MS + 4_999)
    assert "m" in group_of(world).members
    world.pass_ms(1)
    assert "m" not in group_of(world).members


def test_who_gave_up_partitions_and_must_give_up_more_has_only_what_is_left(world: GroupWorld) -> None:
    world.beat("a", 0)
    world.beat("b", 0)
    kept = world.beat("a", 2).assignment[T]
    world.beat("c", 0)  # a's target shrinks while it gives up the first part
    world.beat("d", 0)
    told = world.beat("a", 2, owned={T: kept})
    current = group_of(world).members["a"].current
    assert current.state is MemberState.UNREVOKED_PARTITIONS
    assert set(current.epochs) == {(T, index) for index in kept}
    assert len(told.assignment[T]) == 1
