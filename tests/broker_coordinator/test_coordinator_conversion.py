"""A group with members goes to the new protocol and back (KIP-848), rule by rule and under random clients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from conversion_clients import COOPERATIVE, EAGER, PARTITIONS, ClassicClient, NewClient, T, assignment, subscription
from group_world import REBALANCE_MS, SESSION_MS, GroupWorld, classic_group, consumer_group
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.coordinator.groups.classic_group import ClassicGroup, State
from broker.coordinator.groups.config import GroupConfig
from broker.coordinator.groups.consumer_group import ConsumerGroup
from broker.coordinator.groups.events import JoinResult, SyncResult
from broker.coordinator.groups.record_codec import decode
from broker.coordinator.groups.records import ClassicGroupKey, GroupEpochKey
from broker.coordinator.runtime import LoadedRecord
from broker.wire.errors import ErrorCode
from tests.amount import examples

CONFIG = GroupConfig(
    group_initial_rebalance_delay_ms=0,
    group_consumer_session_timeout_ms=10_000,
    group_consumer_assignment_interval_ms=0,
)
Client = ClassicClient | NewClient


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld(config=CONFIG)


def settle(world: GroupWorld, clients: list[Any], *, rounds: int = 30) -> None:
    for _ in range(rounds):
        for client in clients:
            client.step()
        world.pass_ms(100)


def held(clients: list[Any]) -> list[int]:
    return sorted(index for client in clients for index in client.held)


# -- there and back ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [EAGER, COOPERATIVE])
def test_all_members_go_to_the_new_protocol_one_by_one_and_back(world: GroupWorld, protocol: str) -> None:
    olds = [ClassicClient(world, protocol=protocol) for _ in range(3)]
    news = [NewClient(world, f"N{place}") for place in range(3)]
    settle(world, olds)
    world.commit(5, olds[0].member_id, olds[0].generation)
    assert classic_group(world).state is State.STABLE
    members: list[Any] = list(olds)
    for old, new in zip(olds, news, strict=True):
        members.append(new)
        settle(world, members)
        assert consumer_group(world).state == "Stable"
        assert held(members) == sorted(PARTITIONS)
        old.leave()
        members.remove(old)
        settle(world, members)
        assert held(members) == sorted(PARTITIONS)
    for old, new in zip(olds, news, strict=True):
        members.append(old)
        settle(world, members)
        assert consumer_group(world).state == "Stable"
        assert held(members) == sorted(PARTITIONS)
        new.leave()
        members.remove(new)
        settle(world, members)
        assert held(members) == sorted(PARTITIONS)
    assert classic_group(world).state is State.STABLE
    assert world.fetch().partitions["t", 0].offset == 5, "offsets stay"
    assert world.replayed().durable() == world.shard.durable()


def test_each_change_is_one_batch_that_ends_what_was(world: GroupWorld) -> None:
    old, new = ClassicClient(world), NewClient(world, "N")
    settle(world, [old])
    begin = len(world.log)
    new.step()
    assert _kinds(world, begin)[0] == (ClassicGroupKey, False)
    assert (GroupEpochKey, True) in _kinds(world, begin)
    settle(world, [old, new])
    begin = len(world.log)
    new.leave()
    assert _kinds(world, begin)[-2:] == [(GroupEpochKey, False), (ClassicGroupKey, True)]


def _kinds(world: GroupWorld, begin: int) -> list[tuple[type, bool]]:
    """(type of the key, whether it has a value) of what was written since."""
    found = []
    for entry in world.log[begin:]:
        assert isinstance(entry, LoadedRecord)
        record = decode(entry.key, entry.value)
        assert record is not None
        found.append((type(record[0]), record[1] is not None))
    return found


def test_the_generation_goes_on_as_the_epoch_and_back(world: GroupWorld) -> None:
    old, new = ClassicClient(world), NewClient(world, "N")
    settle(world, [old])
    generation = old.generation
    new.step()
    group = consumer_group(world)
    assert group.epoch == group.target_epoch == generation + 1
    assert group.members[old.member_id].current.member_epoch == generation
    settle(world, [old, new])
    assert old.generation == generation + 1
    new.leave()
    assert classic_group(world).generation == generation + 1
    settle(world, [old])
    assert old.generation == generation + 2


def test_a_coordinator_that_takes_over_right_after_the_downgrade_lets_all_join_again(world: GroupWorld) -> None:
    """The partitions of the one that left belong to nobody, and the others do not know of a rebalance yet."""
    olds, new = [ClassicClient(world, protocol=COOPERATIVE) for _ in range(2)], NewClient(world, "N")
    settle(world, [*olds, new])
    assert new.held
    new.leave()
    world.fail_over()
    settle(world, list(olds))
    assert held(list(olds)) == sorted(PARTITIONS)


# -- who may -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("is_upgrade_on", "is_downgrade_on"), [(True, False), (False, True), (False, False)])
def test_the_policy_allows_either_way_alone(is_upgrade_on: bool, is_downgrade_on: bool) -> None:
    config = replace(CONFIG, is_upgrade_on=is_upgrade_on, is_downgrade_on=is_downgrade_on)
    world = GroupWorld(config=config)
    old, new = ClassicClient(world), NewClient(world, "N")
    settle(world, [old])
    answer = world.beat("N", 0)
    assert (answer.error_code is ErrorCode.none) == is_upgrade_on
    old.leave()
    world.beat("N", -1)
    settle(world, [new])
    settle(world, [old, new])  # a classic member may join a new group under every policy
    assert held([old, new]) == sorted(PARTITIONS)
    new.leave()
    assert isinstance(world.shard.groups["g"], ClassicGroup if is_downgrade_on else ConsumerGroup)
    settle(world, [old])
    assert held([old]) == sorted(PARTITIONS)


@pytest.mark.parametrize(
    ("changes", "given_assignment"),
    [
        ({"protocol_type": "connect"}, b""),
        ({"protocols": ((EAGER, b"\0"),)}, b""),
        ({}, b"\0"),
        ({}, assignment(0)[:-4] + b"\0\0\0\1x"),
    ],
)
def test_a_group_that_cannot_be_understood_stays_classic(
    world: GroupWorld, changes: dict[str, Any], given_assignment: bytes
) -> None:
    values = {"protocols": ((EAGER, subscription()),), **changes}
    joined = world.answer(world.join(**values), JoinResult)
    kind = values.get("protocol_type", "consumer")
    world.sync(joined.member_id, 1, {joined.member_id: given_assignment}, protocol_type=kind)
    before = len(world.log)
    assert world.beat("N", 0).error_code is ErrorCode.group_id_not_found
    assert classic_group(world).state is State.STABLE
    assert len(world.log) == before
    assert world.heartbeat(joined.member_id, 1) is ErrorCode.none


def test_sizes_of_the_other_protocol_count() -> None:
    world = GroupWorld(config=replace(CONFIG, group_consumer_max_size=1, group_max_size=2))
    olds = [ClassicClient(world) for _ in range(2)]
    settle(world, list(olds))
    assert world.beat("N", 0).error_code is ErrorCode.group_id_not_found
    world = GroupWorld(config=replace(CONFIG, group_consumer_max_size=3, group_max_size=1))
    new, olds = NewClient(world, "N"), [ClassicClient(world) for _ in range(2)]
    settle(world, [new, *olds])
    refused = world.answer(world.join("x", protocols=((EAGER, subscription()),)), JoinResult)
    assert refused.error_code is ErrorCode.group_max_size_reached
    new.leave()
    settle(world, list(olds))
    assert consumer_group(world).state == "Stable", "too many for a classic group: it stays"
    olds[0].leave()
    settle(world, [olds[1]])
    assert classic_group(world).state is State.STABLE


def test_a_refused_member_leaves_the_classic_group_as_it_was(world: GroupWorld) -> None:
    a = world.answer(world.join(instance_id="a", protocols=((EAGER, subscription()),)), JoinResult)
    waiting = world.join(instance_id="b", protocols=((EAGER, subscription()),))
    refused = world.beat("N", 0, subscribed_topic_names=None, subscribed_topic_regex="(")
    assert refused.error_code is ErrorCode.invalid_regular_expression
    assert not world.is_answered(waiting)
    world.join(a.member_id, instance_id="a", protocols=((EAGER, subscription()),))
    assert world.answer(waiting, JoinResult).error_code is ErrorCode.none


def test_partitions_that_a_classic_leader_gave_twice_get_one_owner(world: GroupWorld) -> None:
    a = world.answer(world.join(instance_id="a", protocols=((EAGER, subscription()),)), JoinResult)
    waiting = world.join(instance_id="b", protocols=((EAGER, subscription()),))
    world.join(a.member_id, instance_id="a", protocols=((EAGER, subscription()),))
    b = world.answer(waiting, JoinResult)
    both = {member_id: assignment(0, 1, 77) for member_id in (a.member_id, b.member_id)}
    world.sync(a.member_id, 2, both, instance_id="a")
    world.beat("N", 0)
    members = consumer_group(world).members
    assert members[a.member_id].current.assigned == {T: frozenset({0, 1})}
    assert members[b.member_id].current.assigned == {}


# -- classic members in the new group ----------------------------------------------------------------------------------


def mixed(world: GroupWorld) -> tuple[ClassicClient, NewClient]:
    old, new = ClassicClient(world), NewClient(world, "N")
    settle(world, [old])
    settle(world, [old, new])
    return old, new


def test_a_classic_member_that_falls_silent_is_removed_after_its_own_session(world: GroupWorld) -> None:
    old, new = mixed(world)
    for _ in range(SESSION_MS // 1_000 - 1):
        world.pass_ms(1_000)
        new.step()
    assert old.member_id in consumer_group(world).members
    world.pass_ms(1_000)
    settle(world, [new])
    assert old.member_id not in consumer_group(world).members
    assert new.held == PARTITIONS


def test_who_is_told_to_join_again_and_does_not_is_removed(world: GroupWorld) -> None:
    old, new = mixed(world)
    world.beat("M", 0)
    for _ in range(REBALANCE_MS // 1_000):
        assert old.member_id in consumer_group(world).members
        new.step()
        last = world.heartbeat(old.member_id, old.generation)
        world.pass_ms(1_000)
    assert last is ErrorCode.rebalance_in_progress
    assert old.member_id not in consumer_group(world).members


def test_who_joins_and_does_not_sync_is_removed(world: GroupWorld) -> None:
    old, new = mixed(world)
    world.join(old.member_id, protocols=((EAGER, subscription()),))
    for _ in range(REBALANCE_MS // 1_000):
        assert old.member_id in consumer_group(world).members
        new.step()
        world.heartbeat(old.member_id, consumer_group(world).members[old.member_id].current.member_epoch)
        world.pass_ms(1_000)
    assert old.member_id not in consumer_group(world).members


def test_the_last_new_member_that_falls_silent_makes_the_group_classic(world: GroupWorld) -> None:
    old, _ = mixed(world)
    for _ in range(11):
        old.step()
        world.pass_ms(1_000)
    settle(world, [old])
    assert classic_group(world).state is State.STABLE
    assert old.held == PARTITIONS


def test_fences(world: GroupWorld) -> None:
    old, new = mixed(world)
    for member, generation, error in (
        ("stranger", 1, ErrorCode.unknown_member_id),
        (new.member_id, new.generation, ErrorCode.unknown_member_id),
        (old.member_id, old.generation + 1, ErrorCode.illegal_generation),
    ):
        assert world.heartbeat(member, generation) is error
        assert world.answer(world.sync(member, generation), SyncResult).error_code is error
    assert world.commit(6, old.member_id, old.generation - 1).error_code is ErrorCode.illegal_generation
    assert world.commit(6, old.member_id, old.generation, knows_member_epochs=False).error_code is ErrorCode.none
    assert world.commit(6, "N", new.generation, knows_member_epochs=False).error_code is ErrorCode.unsupported_version
    stale = world.fetch(member_id=old.member_id, member_epoch=old.generation - 1)
    assert stale.error_code is ErrorCode.illegal_generation
    world.beat("M", 0)
    late = world.answer(world.sync(old.member_id, old.generation), SyncResult)
    assert late.error_code is ErrorCode.rebalance_in_progress


def test_a_removed_member_that_still_owns_partitions_is_no_new_one(world: GroupWorld) -> None:
    old, _ = mixed(world)
    world.leave((old.member_id, None))
    token = world.join(old.member_id, protocols=((COOPERATIVE, subscription(frozenset({0}))),))
    assert world.answer(token, JoinResult).error_code is ErrorCode.unknown_member_id
    token = world.join(old.member_id, protocols=((COOPERATIVE, subscription()),))
    assert world.answer(token, JoinResult).error_code is ErrorCode.none


def test_classic_members_must_have_a_protocol_in_common(world: GroupWorld) -> None:
    mixed(world)
    refused = world.answer(world.join("x", protocols=(("sticky", subscription()),)), JoinResult)
    assert refused.error_code is ErrorCode.inconsistent_group_protocol
    protocols = (("sticky", subscription()), (EAGER, subscription()))
    joined = world.answer(world.join("x", protocols=protocols), JoinResult)
    assert (joined.error_code, joined.protocol) == (ErrorCode.none, "sticky")
    world.beat("N", -1)
    assert classic_group(world).protocol == EAGER


def test_static_members_keep_their_partitions_as_they_change_the_protocol(world: GroupWorld) -> None:
    old, other = ClassicClient(world, instance_id="i"), ClassicClient(world, instance_id="j")
    settle(world, [old, other])
    mine = old.held
    new = NewClient(world, "N", instance_id="i")
    new.step()
    assert new.held == mine
    assert world.heartbeat(old.member_id, old.generation, "i") is ErrorCode.fenced_instance_id
    settle(world, [other, new])
    assert held([other, new]) == sorted(PARTITIONS)
    new.leave(-2)
    back = ClassicClient(world, instance_id="i")
    settle(world, [other, back])
    assert classic_group(world).state is State.STABLE
    assert back.held == mine
    assert held([other, back]) == sorted(PARTITIONS)


@pytest.mark.parametrize("steps", [1, 2])
def test_a_group_that_is_upgraded_in_the_middle_of_a_rebalance_is_assigned_anew(world: GroupWorld, steps: int) -> None:
    """The static member that takes over has the subscription of the one that it replaces. So nothing else would ever
    ask for an assignment, and nobody would read."""
    old, new = ClassicClient(world, instance_id="i"), NewClient(world, "N", instance_id="i")
    for _ in range(steps):  # it has joined, or it has assigned everything to itself
        old.step()
    new.step()
    settle(world, [new])
    assert held([new]) == sorted(PARTITIONS)


# -- any clients -------------------------------------------------------------------------------------------------------

ACTION = st.one_of(
    st.tuples(st.just("step"), st.integers(0, 6)),
    st.tuples(st.just("step"), st.integers(0, 6)),
    st.tuples(st.just("rounds"), st.integers(1, 4)),
    st.tuples(st.just("leave"), st.integers(0, 6)),
    st.tuples(st.just("away"), st.integers(4, 6)),
    st.tuples(st.just("die"), st.integers(0, 6)),
    st.tuples(st.just("pass"), st.sampled_from([10, 1_000, 12_000, 31_000])),
    st.tuples(st.just("fail over"), st.just(0)),
)


def clients_of(world: GroupWorld, protocol: str) -> list[Any]:
    """Three classic ones and one that is static; three new ones, the last with the same instance id."""
    olds = [ClassicClient(world, protocol=protocol, instance_id="i" if place == 3 else None) for place in range(4)]
    return [*olds, *(NewClient(world, f"N{place}", instance_id="i" if place == 2 else None) for place in range(3))]


def check_readers(world: GroupWorld, clients: list[Any]) -> None:
    owners: dict[int, str] = {}
    for client in clients:
        if not _is_accepted(world, client):
            continue
        for index in client.held:
            assert index not in owners, f"{client.member_id} and {owners[index]} read partition {index}"
            owners[index] = client.member_id


def _is_accepted(world: GroupWorld, client: Any) -> bool:
    """Whether the coordinator would take what this client commits."""
    group = world.shard.groups.get("g")
    member = None if group is None else group.members.get(client.member_id)
    if member is None or client.generation < 0:
        return False
    if isinstance(group, ClassicGroup):
        return isinstance(client, ClassicClient) and client.generation == group.generation
    assert isinstance(group, ConsumerGroup)
    found = group.members[client.member_id]
    is_classic = found.value.classic is not None
    return is_classic == isinstance(client, ClassicClient) and found.current.member_epoch == client.generation


def is_settled(world: GroupWorld, living: list[Any]) -> bool:
    group = world.shard.groups.get("g")
    return group is not None and len(group.members) == len(living) and held(living) == sorted(PARTITIONS)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(ACTION, max_size=40), st.sampled_from([EAGER, COOPERATIVE]), st.sampled_from([0, 500]))
@example([("step", 3), ("step", 6)], EAGER, 0)
@example([("step", 3), ("step", 6)], COOPERATIVE, 0)
@pytest.mark.thorough
def test_no_partition_has_two_readers_and_in_the_end_each_has_one(
    actions: list[tuple[Any, ...]], protocol: str, interval_ms: int
) -> None:
    world = GroupWorld(config=replace(CONFIG, group_consumer_assignment_interval_ms=interval_ms))
    clients = clients_of(world, protocol)
    living: list[Any] = []
    for kind, which in actions:
        if kind == "step":
            if clients[which] not in living:
                living.append(clients[which])
            clients[which].step()
        elif kind == "rounds":
            settle(world, living, rounds=which)
        elif kind == "leave":
            clients[which].leave()
        elif kind == "away":
            clients[which].leave(-2)
        elif kind == "die":
            clients[which].vanish()
        elif kind == "pass":
            world.pass_ms(which)
        else:
            world.fail_over()
        if kind in ("leave", "away", "die") and clients[which] in living:
            living.remove(clients[which])
        if kind != "step" or len(world.log) % 3 == 0:
            assert world.replayed().durable() == world.shard.durable()
        check_readers(world, clients)
    if clients[3] in living and clients[6] in living:  # one instance id: only one of them can live
        living.remove(clients[6])
        clients[6].vanish()
    if not living:
        living.append(clients[0])
    begin_ms = world.now_ms
    while not is_settled(world, living) and world.now_ms < begin_ms + 2 * REBALANCE_MS:
        settle(world, living, rounds=1)
        check_readers(world, clients)
    assert held(living) == sorted(PARTITIONS)
