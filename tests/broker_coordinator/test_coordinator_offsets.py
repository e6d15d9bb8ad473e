"""Committed offsets: who may commit, transactions, deletion, retention."""

from __future__ import annotations

import pytest
from group_world import WALL_OFFSET_MS, GroupWorld

from broker.coordinator.groups.classic_group import ClassicGroup
from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.events import (
    CompleteTransaction,
    DeleteOffsets,
    DeleteOffsetsResult,
    ExpireOffsets,
    JoinResult,
    OffsetToCommit,
    SyncResult,
    TopicsChanged,
)
from broker.coordinator.runtime import LoadedMarker
from broker.coordinator.schema import Writer
from broker.wire.errors import ErrorCode

RETENTION_MS = GroupConfig().offsets_retention_ms
SUBSCRIPTION = Writer(0)
SUBSCRIPTION.array(["t"], SUBSCRIPTION.string)


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld()


def member(world: GroupWorld) -> tuple[str, int]:
    """A classic group of one consumer of topic `t`."""
    token = world.join(protocols=(("range", bytes(SUBSCRIPTION)),))
    world.pass_ms(0)
    joined = world.answer(token, JoinResult)
    assert world.answer(world.sync(joined.member_id, joined.generation), SyncResult).error_code is ErrorCode.none
    return joined.member_id, joined.generation


def delete(world: GroupWorld, *places: tuple[str, int]) -> DeleteOffsetsResult:
    token = world.ask(DeleteOffsets(token=world.token(), group_id="g", partitions=places))
    return world.answer(token, DeleteOffsetsResult)


def complete(world: GroupWorld, producer_id: int, *, is_commit: bool) -> None:
    """The marker as it comes by WriteTxnMarkers: first into the log, then to the shard."""
    world.log.append(
        LoadedMarker(offset=len(world.log), producer_id=producer_id, producer_epoch=0, is_commit=is_commit)
    )
    world.handle(CompleteTransaction(producer_id=producer_id, producer_epoch=0, is_commit=is_commit))


def test_anybody_commits_while_there_are_no_members(world: GroupWorld) -> None:
    assert world.commit(7).partitions == {("t", 0): ErrorCode.none}
    assert world.commit(7, "m", 3).error_code is ErrorCode.unknown_member_id  # offsets, but no members
    found = world.fetch({"t": (0, 1)}).partitions
    assert (found["t", 0].offset, found["t", 0].leader_epoch, found["t", 0].metadata) == (7, 1, "m")
    assert found["t", 1].offset == -1
    assert set(world.fetch().partitions) == {("t", 0)}


def test_a_member_of_a_group_that_is_not_there_is_told_so_as_its_version_can_say(world: GroupWorld) -> None:
    assert world.commit(7, "m", 3).error_code is ErrorCode.group_id_not_found
    assert world.commit(7, "m", 3, knows_member_epochs=False).error_code is ErrorCode.illegal_generation


def test_members_commit_in_their_generation_and_nobody_else(world: GroupWorld) -> None:
    member_id, generation = member(world)
    assert world.commit(7, member_id, generation).error_code is ErrorCode.none
    assert world.commit(8, member_id, generation + 1).error_code is ErrorCode.illegal_generation
    assert world.commit(8, "stranger", generation).error_code is ErrorCode.unknown_member_id
    assert world.commit(8).error_code is ErrorCode.unknown_member_id
    assert world.fetch().partitions["t", 0].offset == 7


def test_a_commit_is_a_sign_of_life(world: GroupWorld) -> None:
    member_id, generation = member(world)
    for _ in range(3):
        world.pass_ms(9_000)
        assert world.commit(7, member_id, generation).error_code is ErrorCode.none


def test_metadata_that_is_too_large_is_refused_and_its_neighbours_are_kept(world: GroupWorld) -> None:
    large = OffsetToCommit(topic="t", partition=0, offset=1, leader_epoch=-1, metadata="x" * 4_097)
    small = OffsetToCommit(topic="t", partition=1, offset=1, leader_epoch=-1, metadata="x" * 4_096)
    result = world.commit(offsets=(large, small))
    assert result.partitions == {("t", 0): ErrorCode.offset_metadata_too_large, ("t", 1): ErrorCode.none}
    assert set(world.fetch().partitions) == {("t", 1)}


def test_offsets_of_a_transaction_count_from_its_commit_marker_on(world: GroupWorld) -> None:
    world.commit(1)
    assert world.commit(5, producer_id=9, producer_epoch=0).error_code is ErrorCode.none
    assert world.fetch({"t": (0,)}).partitions["t", 0].offset == 1
    unstable = world.fetch({"t": (0,)}, require_stable=True).partitions["t", 0]
    assert unstable.error_code is ErrorCode.unstable_offset_commit
    world.fail_over()
    assert world.fetch({"t": (0,)}).partitions["t", 0].offset == 1
    complete(world, 9, is_commit=True)
    assert world.fetch({"t": (0,)}, require_stable=True).partitions["t", 0].offset == 5
    world.commit(8, producer_id=9, producer_epoch=0)
    complete(world, 9, is_commit=False)
    assert world.fetch().partitions["t", 0].offset == 5
    assert world.replayed().durable() == world.shard.durable()


def test_a_later_plain_commit_wins_over_an_earlier_transactional_one(world: GroupWorld) -> None:
    world.commit(5, producer_id=9, producer_epoch=0)
    world.commit(6)
    complete(world, 9, is_commit=True)
    assert world.fetch().partitions["t", 0].offset == 6
    assert world.replayed().durable() == world.shard.durable()


def test_offsets_of_topics_in_use_are_not_deleted(world: GroupWorld) -> None:
    other = OffsetToCommit(topic="u", partition=0, offset=1, leader_epoch=-1, metadata="")
    member_id, generation = member(world)
    world.commit(7, member_id, generation)
    world.commit(member_id=member_id, generation=generation, offsets=(other,))
    assert delete(world, ("t", 0), ("u", 0)).partitions == {
        ("t", 0): ErrorCode.group_subscribed_to_topic,
        ("u", 0): ErrorCode.none,
    }
    assert set(world.fetch().partitions) == {("t", 0)}
    world.leave((member_id, None))
    assert delete(world, ("t", 0)).partitions == {("t", 0): ErrorCode.none}
    assert world.fetch().partitions == {}


def test_offsets_of_a_deleted_topic_go_with_it(world: GroupWorld) -> None:
    world.commit(7)
    world.handle(TopicsChanged(topics={}, deleted=frozenset({"t"})))
    world.pass_ms(0)
    assert world.fetch().partitions == {}
    assert world.replayed().durable() == world.shard.durable()


def test_offsets_of_an_unused_group_expire_and_take_it_with_them(world: GroupWorld) -> None:
    member_id, generation = member(world)
    world.commit(7, member_id, generation)
    far_ms = WALL_OFFSET_MS + 10 * RETENTION_MS
    world.handle(ExpireOffsets(wall_ms=far_ms))
    assert world.fetch().partitions["t", 0].offset == 7, "a member still reads the topic"
    world.leave((member_id, None))
    group = world.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    world.handle(ExpireOffsets(wall_ms=group.state_timestamp_ms + RETENTION_MS - 1))
    assert world.fetch().partitions["t", 0].offset == 7, "counted from when the group became empty"
    world.handle(ExpireOffsets(wall_ms=group.state_timestamp_ms + RETENTION_MS))
    assert world.fetch().partitions == {}
    assert world.shard.groups == {}
    assert world.replayed().durable() == ({}, ({}, {}))


def test_offsets_without_a_group_expire_by_their_commit_time(world: GroupWorld) -> None:
    world.commit(7)
    world.handle(ExpireOffsets(wall_ms=WALL_OFFSET_MS + RETENTION_MS - 1))
    assert world.fetch().partitions["t", 0].offset == 7
    world.handle(ExpireOffsets(wall_ms=WALL_OFFSET_MS + RETENTION_MS))
    assert world.fetch().partitions == {}
