"""The classic group protocol, rule by rule: joins, syncs, heartbeats, leaving, static members, time."""

from __future__ import annotations

from typing import Any

import pytest
from group_world import REBALANCE_MS, SESSION_MS, GroupWorld
from group_world import classic_group as group_of

from broker.coordinator.groups.classic import NEW_MEMBER_JOIN_TIMEOUT_MS, PENDING_MAX
from broker.coordinator.groups.classic_group import State
from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.events import (
    DescribeClassicGroup,
    DescribedGroup,
    JoinResult,
    LeaveResult,
    ListedGroup,
    ListGroups,
    SyncResult,
)
from broker.wire.errors import ErrorCode


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld()


def join_first(world: GroupWorld, **changes: Any) -> JoinResult:
    token = world.join(**changes)
    world.pass_ms(0)
    return world.answer(token, JoinResult)


def stable(world: GroupWorld, members: int, **changes: Any) -> list[str]:
    """Member ids of a stable group, the leader first; instance ids `i0`, `i1` .. with instances=True."""
    instances = changes.pop("instances", False)
    first = join_first(world, instance_id="i0" if instances else None, **changes)
    ids = [first.member_id]
    world.sync(first.member_id, first.generation, {first.member_id: b"all"})
    for number in range(1, members):
        waiting = world.join(instance_id=f"i{number}" if instances else None, **changes)
        again = [world.join(member_id, instance_id=_instance(world, member_id), **changes) for member_id in ids]
        results = [world.answer(token, JoinResult) for token in (*again, waiting)]
        assert {result.error_code for result in results} == {ErrorCode.none}
        ids = [result.member_id for result in results]
        generation = results[0].generation
        tokens = [
            world.sync(
                member_id,
                generation,
                {each: each.encode() for each in ids} if member_id == results[0].leader else {},
                instance_id=_instance(world, member_id),
            )
            for member_id in reversed(ids)
        ]
        assert {world.answer(token, SyncResult).error_code for token in tokens} == {ErrorCode.none}
    assert group_of(world).state is State.STABLE
    return ids


def _instance(world: GroupWorld, member_id: str) -> str | None:
    return group_of(world).members[member_id].instance_id


def test_one_member_joins_leads_syncs_and_lives(world: GroupWorld) -> None:
    joined = join_first(world)
    assert joined.error_code is ErrorCode.none
    assert joined.leader == joined.member_id
    assert joined.generation == 1
    assert joined.members == ((joined.member_id, None, b"meta"),)
    synced = world.answer(world.sync(joined.member_id, 1, {joined.member_id: b"mine"}), SyncResult)
    assert (synced.error_code, synced.assignment, synced.protocol) == (ErrorCode.none, b"mine", "range")
    assert world.heartbeat(joined.member_id, 1) is ErrorCode.none
    assert world.heartbeat(joined.member_id, 2) is ErrorCode.illegal_generation
    assert world.heartbeat("stranger", 1) is ErrorCode.unknown_member_id


def test_a_member_id_is_asked_for_before_a_join_counts(world: GroupWorld) -> None:
    refused = world.answer(world.join(needs_known_member_id=True), JoinResult)
    assert refused.error_code is ErrorCode.member_id_required
    assert refused.member_id.startswith("c-")
    assert group_of(world).members == {}
    assert join_first(world, member_id=refused.member_id).error_code is ErrorCode.none
    world.answer(world.join(needs_known_member_id=True), JoinResult)  # given an id and never seen again
    world.pass_ms(SESSION_MS)
    assert group_of(world).pending == {}


def test_the_leader_alone_learns_the_members_and_followers_wait_for_its_sync(world: GroupWorld) -> None:
    leader = join_first(world).member_id
    waiting = world.join()
    assert not world.is_answered(waiting)
    assert world.heartbeat(leader, 1) is ErrorCode.rebalance_in_progress
    again = world.answer(world.join(leader), JoinResult)
    follower = world.answer(waiting, JoinResult)
    assert (again.generation, follower.generation) == (2, 2)
    assert len(again.members) == 2
    assert follower.members == ()
    sync = world.sync(follower.member_id, 2)
    assert not world.is_answered(sync)
    world.sync(leader, 2, {leader: b"1", follower.member_id: b"2"})
    assert world.answer(sync, SyncResult).assignment == b"2"


def test_who_does_not_come_back_in_time_is_out(world: GroupWorld) -> None:
    ids = stable(world, 2)
    waiting = world.join()
    world.join(ids[0])
    for _ in range(5):  # the third one lives, but does not join again
        world.pass_ms(REBALANCE_MS // 6)
        world.heartbeat(ids[1], group_of(world).generation)
    assert not world.is_answered(waiting)
    world.pass_ms(REBALANCE_MS // 6)
    assert world.answer(waiting, JoinResult).error_code is ErrorCode.none
    assert ids[1] not in group_of(world).members
    assert world.heartbeat(ids[1], group_of(world).generation) is ErrorCode.unknown_member_id


def test_silence_for_a_session_ends_a_member_and_begins_a_rebalance(world: GroupWorld) -> None:
    ids = stable(world, 2)
    generation = group_of(world).generation
    world.pass_ms(SESSION_MS - 1)
    assert world.heartbeat(ids[0], generation) is ErrorCode.none
    world.pass_ms(1)
    assert world.heartbeat(ids[0], generation) is ErrorCode.rebalance_in_progress
    assert list(group_of(world).members) == [ids[0]]


def test_the_last_one_out_leaves_an_empty_group_that_keeps_its_generation(world: GroupWorld) -> None:
    (member_id,) = stable(world, 1)
    assert world.leave((member_id, None)).error_code is ErrorCode.none
    assert group_of(world).state is State.EMPTY
    assert group_of(world).generation == 2
    assert join_first(world).generation == 3


def test_a_follower_that_never_syncs_is_removed_after_the_rebalance_timeout(world: GroupWorld) -> None:
    ids = stable(world, 2)
    third = world.join()
    for member_id in ids:
        world.join(member_id)
    joined = world.answer(third, JoinResult)
    world.sync(ids[0], joined.generation, {})
    world.sync(ids[1], joined.generation, {})
    for _ in range(6):
        world.pass_ms(REBALANCE_MS // 6)
        for member_id in (*ids, joined.member_id):
            world.heartbeat(member_id, joined.generation)
    assert joined.member_id not in group_of(world).members


def test_a_lost_join_answer_is_given_again_without_a_rebalance(world: GroupWorld) -> None:
    ids = stable(world, 2)
    generation = group_of(world).generation
    follower = world.answer(world.join(ids[1]), JoinResult)
    assert (follower.error_code, follower.generation) == (ErrorCode.none, generation)
    world.join(ids[0])  # the leader wants a rebalance: it has seen topics change
    assert group_of(world).state is State.PREPARING


def test_changed_metadata_begins_a_rebalance(world: GroupWorld) -> None:
    ids = stable(world, 2)
    world.join(ids[1], protocols=(("range", b"other"),))
    assert group_of(world).state is State.PREPARING
    synced = world.answer(world.sync(ids[0], group_of(world).generation), SyncResult)
    assert synced.error_code is ErrorCode.rebalance_in_progress


def test_the_protocol_of_most_votes_that_all_support_is_chosen(world: GroupWorld) -> None:
    first = join_first(world, protocols=(("a", b""), ("b", b"")))
    second = world.join(protocols=(("b", b""), ("c", b"")))
    again = world.answer(world.join(first.member_id, protocols=(("a", b""), ("b", b""))), JoinResult)
    assert (first.protocol, again.protocol) == ("a", "b")
    assert world.answer(second, JoinResult).protocol == "b"
    stranger = world.answer(world.join(protocols=(("c", b""),)), JoinResult)
    assert stranger.error_code is ErrorCode.inconsistent_group_protocol
    other = world.answer(world.join(protocol_type="connect"), JoinResult)
    assert other.error_code is ErrorCode.inconsistent_group_protocol


def test_a_protocol_that_a_member_names_twice_counts_once(world: GroupWorld) -> None:
    first = join_first(world, protocols=(("a", b"1"), ("a", b"2"), ("b", b"")))
    assert first.protocol == "a"
    second = world.join(protocols=(("b", b""), ("b", b"")))
    again = world.answer(world.join(first.member_id, protocols=(("a", b"1"), ("a", b"2"), ("b", b""))), JoinResult)
    assert again.protocol == world.answer(second, JoinResult).protocol == "b"


@pytest.mark.parametrize("session_timeout_ms", [5_999, 1_800_001])
def test_a_session_timeout_outside_of_the_bounds_is_refused(world: GroupWorld, session_timeout_ms: int) -> None:
    result = world.answer(world.join(session_timeout_ms=session_timeout_ms), JoinResult)
    assert result.error_code is ErrorCode.invalid_session_timeout


def test_a_full_group_takes_nobody_but_its_members() -> None:
    world = GroupWorld(config=GroupConfig(group_initial_rebalance_delay_ms=0, group_max_size=2))
    ids = stable(world, 2)
    assert world.answer(world.join(), JoinResult).error_code is ErrorCode.group_max_size_reached
    assert world.answer(world.join(ids[1]), JoinResult).error_code is ErrorCode.none


def test_the_first_rebalance_waits_for_stragglers_and_longer_while_they_come() -> None:
    world = GroupWorld(config=GroupConfig(group_initial_rebalance_delay_ms=1_000))
    first = world.join()
    world.pass_ms(900)
    second = world.join()
    world.pass_ms(999)
    assert not world.is_answered(first)
    world.pass_ms(101)
    assert world.answer(first, JoinResult).generation == world.answer(second, JoinResult).generation == 1


def test_a_first_join_whose_client_is_gone_does_not_block_for_ever(world: GroupWorld) -> None:
    leader = join_first(world).member_id
    world.join(rebalance_timeout_ms=2**30)
    world.pass_ms(SESSION_MS)  # the leader falls silent too; only the waiting newcomer is left
    assert leader not in group_of(world).members
    world.pass_ms(NEW_MEMBER_JOIN_TIMEOUT_MS)
    assert group_of(world).state in (State.EMPTY, State.COMPLETING)


# -- static members (KIP-345) ----------------------------------------------------------------------------------------


def test_a_static_member_is_back_without_a_rebalance_and_its_old_id_is_fenced(world: GroupWorld) -> None:
    ids = stable(world, 2, instances=True)
    generation = group_of(world).generation
    back = world.answer(world.join(instance_id="i1"), JoinResult)
    assert (back.error_code, back.generation) == (ErrorCode.none, generation)
    assert back.member_id != ids[1]
    assert group_of(world).state is State.STABLE
    assert world.heartbeat(ids[1], generation, "i1") is ErrorCode.fenced_instance_id
    assert world.heartbeat(ids[0], generation, "i0") is ErrorCode.none
    synced = world.answer(world.sync(back.member_id, generation, instance_id="i1"), SyncResult)
    assert synced.assignment == ids[1].encode()  # what the old id had


@pytest.mark.parametrize("can_skip_assignment", [True, False])
def test_a_static_leader_that_is_back_does_not_assign_anew(world: GroupWorld, can_skip_assignment: bool) -> None:
    ids = stable(world, 2, instances=True)
    back = world.answer(world.join(instance_id="i0", can_skip_assignment=can_skip_assignment), JoinResult)
    if can_skip_assignment:  # KIP-814: it leads, and knows that it must not assign
        assert back.skip_assignment
        assert back.leader == back.member_id
        assert len(back.members) == 2
    else:  # it takes itself for a follower
        assert back.leader == ids[0]
        assert back.members == ()


def test_a_static_member_with_other_protocols_causes_a_rebalance(world: GroupWorld) -> None:
    first = join_first(world, instance_id="i0", protocols=(("a", b""), ("b", b"")))
    world.sync(first.member_id, 1, {}, instance_id="i0", protocol="a")
    token = world.join(instance_id="i0", protocols=(("b", b""),))
    world.pass_ms(0)
    back = world.answer(token, JoinResult)
    assert (back.generation, back.protocol) == (2, "b")


def test_an_admin_removes_a_static_member_by_its_instance_id(world: GroupWorld) -> None:
    ids = stable(world, 2, instances=True)
    result = world.leave(("", "i1"), ("", "nobody"), (ids[1], "i0"))
    assert isinstance(result, LeaveResult)
    assert [error for _, _, error in result.members] == [
        ErrorCode.none,
        ErrorCode.unknown_member_id,
        ErrorCode.fenced_instance_id,
    ]
    assert group_of(world).state is State.PREPARING


def test_a_static_member_that_is_away_keeps_its_place_through_a_rebalance(world: GroupWorld) -> None:
    ids = stable(world, 2, instances=True)
    token = world.join(ids[0], instance_id="i0", protocols=(("range", b"other"),))
    for _ in range(4):
        world.pass_ms(REBALANCE_MS // 4 - 1)
        world.heartbeat(ids[1], group_of(world).generation, "i1")
    world.pass_ms(4)
    assert world.answer(token, JoinResult).error_code is ErrorCode.none
    assert set(group_of(world).members) == set(ids)


# -- fail-over, and what others see ------------------------------------------------------------------------------------


def test_a_new_coordinator_knows_the_generation_and_gives_each_member_a_session(world: GroupWorld) -> None:
    ids = stable(world, 2)
    generation = group_of(world).generation
    world.pass_ms(SESSION_MS - 1)
    world.fail_over()
    world.pass_ms(SESSION_MS - 1)
    for member_id in ids:
        assert world.heartbeat(member_id, generation) is ErrorCode.none
    synced = world.answer(world.sync(ids[1], generation), SyncResult)
    assert synced.assignment == ids[1].encode()


def test_groups_are_listed_and_described(world: GroupWorld) -> None:
    ids = stable(world, 2)
    world.commit(group_id="only-offsets")
    listed = world.answers[world.ask(ListGroups(token=world.token()))]
    assert listed == (
        ListedGroup(group_id="g", protocol_type="consumer", state="Stable", group_type="classic"),
        ListedGroup(group_id="only-offsets", protocol_type="", state="Empty", group_type="classic"),
    )
    described = world.answers[world.ask(DescribeClassicGroup(token=world.token(), group_id="g"))]
    assert isinstance(described, DescribedGroup)
    assert (described.state, described.protocol) == ("Stable", "range")
    assert [member.assignment for member in described.members] == [member_id.encode() for member_id in ids]
    nobody = world.answers[world.ask(DescribeClassicGroup(token=world.token(), group_id="none"))]
    assert nobody == DescribedGroup(state="Dead")


def test_a_waiting_request_of_a_replaced_static_member_is_fenced(world: GroupWorld) -> None:
    ids = stable(world, 2, instances=True)
    old = world.join(ids[1], instance_id="i1", protocols=(("range", b"other"),))
    assert not world.is_answered(old)
    world.join(instance_id="i1", protocols=(("range", b"other"),))
    assert world.answer(old, JoinResult).error_code is ErrorCode.fenced_instance_id


def test_a_rebalance_waits_for_those_who_were_given_an_id(world: GroupWorld) -> None:
    ids = stable(world, 1)
    known = world.answer(world.join(needs_known_member_id=True), JoinResult).member_id
    again = world.join(ids[0])
    assert not world.is_answered(again)
    world.join(known)
    assert len(world.answer(again, JoinResult).members) == 2


def test_a_session_begins_when_the_first_join_is_answered(world: GroupWorld) -> None:
    ids = stable(world, 1)
    waiting = world.join(rebalance_timeout_ms=4 * SESSION_MS)
    for _ in range(4):
        world.pass_ms(SESSION_MS // 2)  # longer than the newcomer's session, all in all
        world.heartbeat(ids[0], group_of(world).generation)
    world.join(ids[0])
    joined = world.answer(waiting, JoinResult)
    world.pass_ms(SESSION_MS - 1)
    assert world.heartbeat(joined.member_id, joined.generation) is ErrorCode.none


def test_a_static_newcomer_that_asks_again_is_still_waited_for_beyond_its_session(world: GroupWorld) -> None:
    ids = stable(world, 1)
    world.join(instance_id="new", rebalance_timeout_ms=4 * SESSION_MS)
    waiting = world.join(instance_id="new", rebalance_timeout_ms=4 * SESSION_MS)  # its first connection was lost
    for _ in range(4):
        world.pass_ms(SESSION_MS // 2)
        world.heartbeat(ids[0], group_of(world).generation)
    world.join(ids[0])
    assert world.answer(waiting, JoinResult).error_code is ErrorCode.none


def test_ids_that_were_given_out_and_not_used_are_bounded(world: GroupWorld) -> None:
    """Whoever asks for ids again and again lets the oldest ones lapse. Such a client is told so, and asks again."""
    ids = [world.answer(world.join(needs_known_member_id=True), JoinResult).member_id for _ in range(PENDING_MAX + 3)]
    assert list(group_of(world).pending) == ids[3:]
    assert world.answer(world.join(member_id=ids[0]), JoinResult).error_code is ErrorCode.unknown_member_id
