"""AlterPartitionReassignments (KIP-455) and UnregisterBroker: accepted, refused, completed, cancelled, and never losing
the last replica that is in sync."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.controller.image import NO_LEADER, PartitionState
from broker.controller.reassignment_types import (
    AlterPartitionReassignments,
    AlterPartitionReassignmentsResponse,
    ReassignmentOutcome,
    UnregisterBroker,
    UnregisterBrokerResponse,
    WantedReplicas,
)
from broker.controller.setting_types import AlterConfigs, AlterConfigsResponse, ConfigChange
from broker.controller.snapshot import image_of, image_records
from broker.controller.types import LeadershipGained
from broker.sim.eligibility import is_unclean
from broker.wire.errors import ErrorCode

sys.path.insert(0, str(Path(__file__).parent))
from controller_world import ControllerWorld, cluster


def reassign(
    world: ControllerWorld,
    *replicas: int,
    cancel: bool = False,
    topic: str = "t",
    partition: int = 0,
    keep: bool = False,
) -> ReassignmentOutcome:
    wanted = WantedReplicas(topic=topic, partition=partition, replicas=None if cancel else replicas)
    request = AlterPartitionReassignments(
        token=world.token(), partitions=(wanted,), allow_replication_factor_change=not keep
    )
    return world.ask(AlterPartitionReassignmentsResponse, request).partitions[0]


def made(*replicas: int, brokers: tuple[int, ...] = (1, 2, 3, 4, 5)) -> ControllerWorld:
    world = cluster(*brokers)
    world.create(assignments={0: replicas})
    return world


def allow_unclean(world: ControllerWorld) -> None:
    change = ConfigChange(resource_type=2, resource_name="t", changes={"unclean.leader.election.enable": "true"})
    world.ask(AlterConfigsResponse, AlterConfigs(token=world.token(), resources=(change,)))


def test_the_target_goes_first_and_the_others_stay_until_it_is_in_sync() -> None:
    world = made(1, 2, 3)
    assert reassign(world, 4, 5, 1).error_code == 0
    state = world.partition()
    assert (state.replicas, state.adding, state.removing) == ((4, 5, 1, 2, 3), (4, 5), (2, 3))
    assert (state.leader, state.isr, state.leader_epoch) == (1, (1, 2, 3), 0)


def test_the_others_go_with_the_change_that_brings_the_last_of_the_target_in() -> None:
    world = made(1, 2, 3)
    reassign(world, 4, 5, 1)
    world.alter_isr((1, 2, 3, 4))
    assert world.partition().removing == (2, 3)
    answer = world.alter_isr((1, 2, 3, 4, 5))
    state = world.partition()
    assert (state.replicas, state.adding, state.removing) == ((4, 5, 1), (), ())
    assert (set(state.isr), state.leader) == ({1, 4, 5}, 1)
    # What a removed replica still fetches must not count.
    assert state.leader_epoch == 1
    assert (answer.error_code, answer.state) == (0, state)


def test_a_leader_that_has_no_part_in_the_target_is_told_that_another_leads() -> None:
    world = made(1, 2)
    reassign(world, 3, 4)
    world.alter_isr((1, 2, 3))
    answer = world.alter_isr((1, 2, 3, 4))
    state = world.partition()
    assert answer.error_code == ErrorCode.new_leader_elected
    assert (state.replicas, state.isr, state.leader, state.leader_epoch) == ((3, 4), (3, 4), 3, 1)


def test_replicas_that_are_there_already_are_rearranged_at_once() -> None:
    world = made(1, 2, 3)
    reassign(world, 3, 1, 2)
    state = world.partition()
    assert (state.replicas, state.is_reassigning, state.leader, state.leader_epoch) == ((3, 1, 2), False, 1, 0)


def test_removing_replicas_is_done_at_once_if_the_rest_is_in_sync() -> None:
    world = made(1, 2, 3)
    reassign(world, 2, 3)
    state = world.partition()
    assert (state.replicas, state.isr, state.leader, state.leader_epoch) == ((2, 3), (2, 3), 2, 1)


def test_the_only_replica_in_sync_is_not_removed() -> None:
    world = made(1, 2)
    world.kill(2)
    assert world.partition().isr == (1,)
    reassign(world, 2)
    assert (world.partition().replicas, world.partition().removing) == ((2, 1), (1,))
    world.restart(2)
    assert world.partition().replicas == (2, 1), "restarted is not in sync"
    world.alter_isr((1, 2))
    assert (world.partition().replicas, world.partition().leader) == ((2,), 2)


def test_a_second_target_that_adds_nobody_tells_whom_the_first_one_still_adds() -> None:
    world = made(1, 2)
    world.kill(3)
    reassign(world, 2, 3)
    reassign(world, 1, 3)
    state = world.partition()
    assert (state.replicas, state.adding, state.removing) == ((1, 3, 2), (3,), (2,))
    reassign(world, cancel=True)
    state = world.partition()
    assert (set(state.replicas), state.is_reassigning) == ({1, 2}, False)


def test_a_second_target_that_wants_all_back_is_reached() -> None:
    world = made(1, 2)
    world.kill(3)
    reassign(world, 2, 3)
    reassign(world, 1, 2, 3)
    state = world.partition()
    assert (state.replicas, state.adding, state.removing) == ((1, 2, 3), (3,), ())
    world.restart(3)
    world.alter_isr((1, 2, 3))
    assert (world.partition().replicas, world.partition().is_reassigning) == ((1, 2, 3), False)


def test_a_second_target_without_those_that_were_added_adds_nobody() -> None:
    world = made(1, 2)
    world.kill(3)
    reassign(world, 2, 3)
    reassign(world, 1, 2)
    state = world.partition()
    assert (state.replicas, state.is_reassigning) == ((1, 2), False)


def test_a_second_target_replaces_the_first() -> None:
    world = made(1, 2)
    reassign(world, 3, 4)
    world.alter_isr((1, 2, 3))
    reassign(world, 3, 5)
    state = world.partition()
    assert (state.replicas, state.adding, state.removing) == ((3, 5, 1, 2, 4), (5,), (1, 2, 4))


def test_cancelling_takes_out_what_was_added_and_keeps_what_was_to_go() -> None:
    world = made(1, 2, 3)
    reassign(world, 4, 5, 1)
    world.alter_isr((1, 2, 3, 4))
    assert reassign(world, cancel=True).error_code == 0
    state = world.partition()
    assert (set(state.replicas), set(state.isr), state.is_reassigning) == ({1, 2, 3}, {1, 2, 3}, False)
    assert (state.leader, state.leader_epoch) == (1, 1)


def test_cancelling_moves_the_leadership_back_from_a_replica_that_was_added() -> None:
    world = made(1, 2)
    reassign(world, 3, 4)
    world.alter_isr((1, 2, 3))
    world.kill(1)
    world.kill(2)
    assert (world.partition().leader, world.partition().isr) == (3, (3,))
    world.restart(2)
    world.alter_isr((3, 2))
    reassign(world, cancel=True)
    assert (world.partition().replicas, world.partition().isr, world.partition().leader) == ((1, 2), (2,), 2)


def test_cancelling_would_be_an_unclean_election() -> None:
    world = made(1, 2)
    reassign(world, 3, 4)
    world.alter_isr((1, 2, 3))
    world.kill(1)
    world.kill(2)
    answer = reassign(world, cancel=True)
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.invalid_replica_assignment,
        "Unable to revert partition assignment for t:0 because it would require an unclean leader election.",
    )
    allow_unclean(world)
    assert reassign(world, cancel=True).error_code == 0
    assert (world.partition().replicas, world.partition().isr, world.partition().leader) == ((1, 2), (1,), NO_LEADER)


@pytest.mark.parametrize(
    ("how", "code", "message"),
    [
        ({"topic": "u"}, ErrorCode.unknown_topic_or_partition, "Unable to find a topic named u."),
        ({"partition": 7}, ErrorCode.unknown_topic_or_partition, "Unable to find partition t:7."),
        ({"partition": -1}, ErrorCode.unknown_topic_or_partition, "Unable to find partition t:-1."),
        ({"cancel": True}, ErrorCode.no_reassignment_in_progress, "No partition reassignment is in progress."),
    ],
)
def test_what_is_not_there_is_refused(how: dict[str, object], code: ErrorCode, message: str) -> None:
    world = made(1, 2)
    answer = reassign(world, 1, 2, **how)  # type: ignore[arg-type]
    assert (answer.error_code, answer.error_message) == (code, message)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ((), "The manual partition assignment includes an empty replica list."),
        ((1, 9), "The manual partition assignment includes broker 9, but no such broker is registered."),
        ((2, 3, 2), "The manual partition assignment includes the broker 2 more than once."),
    ],
)
def test_a_target_that_cannot_be_is_refused(target: tuple[int, ...], message: str) -> None:
    world = made(1, 2)
    answer = reassign(world, *target)
    assert (answer.error_code, answer.error_message) == (ErrorCode.invalid_replica_assignment, message)
    assert world.partition().replicas == (1, 2)


def test_the_replication_factor_stays_if_the_client_says_so() -> None:
    world = made(1, 2)
    answer = reassign(world, 1, 2, 3, keep=True)
    assert answer.error_code == ErrorCode.invalid_replication_factor
    assert answer.error_message == "The replication factor is changed from 2 to 3"
    assert reassign(world, 3, 4, keep=True).error_code == 0
    assert reassign(world, 4, 5, keep=True).error_code == 0, "counted without those that go"


def test_one_partition_is_refused_and_the_other_goes() -> None:
    world = cluster(1, 2, 3)
    world.create(assignments={0: (1,), 1: (2,)})
    wanted = tuple(WantedReplicas(topic="t", partition=index, replicas=(each,)) for index, each in ((0, 9), (1, 3)))
    request = AlterPartitionReassignments(token=world.token(), partitions=wanted)
    answers = world.ask(AlterPartitionReassignmentsResponse, request).partitions
    assert [each.error_code for each in answers] == [ErrorCode.invalid_replica_assignment, 0]
    assert world.partition("t", 1).adding == (3,)


def test_a_partition_that_is_named_twice_is_decided_twice() -> None:
    world = made(1, 2)
    wanted = tuple(WantedReplicas(topic="t", partition=0, replicas=replicas) for replicas in ((3,), None))
    request = AlterPartitionReassignments(token=world.token(), partitions=wanted)
    answers = world.ask(AlterPartitionReassignmentsResponse, request).partitions
    assert [each.error_code for each in answers] == [0, 0]
    assert (world.partition().replicas, world.partition().is_reassigning) == ((1, 2), False)


def test_a_snapshot_holds_the_reassignment() -> None:
    world = made(1, 2)
    reassign(world, 3, 4)
    image = world.controller.image
    again = image_of(image_records(image), end_offset=image.offset + 1, epoch=image.epoch)
    assert again.partition("t", 0) == world.partition()


def test_the_next_controller_goes_on_with_it() -> None:
    world = made(1, 2)
    reassign(world, 3)
    world.lose()
    world.handle(LeadershipGained(epoch=world.epoch + 1))
    world.lead()
    world.alter_isr((1, 2, 3))
    assert (world.partition().replicas, world.partition().leader) == ((3,), 3)


# -- a broker that goes for good


def test_an_unregistered_broker_leaves_its_isrs_and_is_forgotten() -> None:
    world = made(1, 2, 3)
    assert world.ask(UnregisterBrokerResponse, UnregisterBroker(token=world.token(), broker_id=1)).error_code == 0
    assert 1 not in world.controller.image.brokers
    assert (world.partition().replicas, world.partition().isr, world.partition().leader) == ((1, 2, 3), (2, 3), 2)
    assert world.beat(1).error_code == ErrorCode.broker_id_not_registered
    reassign(world, 2, 3)
    assert world.partition().replicas == (2, 3)


def test_an_unregistered_broker_may_be_the_last_that_was_in_sync() -> None:
    world = made(1, 2)
    world.kill(2)
    world.kill(1)
    for _ in range(2):
        state = world.partition()
        assert (state.isr, state.elr, state.last_known_elr, state.leader) == ((), (1,), (1,), NO_LEADER)
        world.ask(UnregisterBrokerResponse, UnregisterBroker(token=world.token(), broker_id=1))
    world.join(1)
    assert world.partition().leader == 1


def test_a_broker_that_is_not_registered_cannot_be_unregistered() -> None:
    world = cluster(1)
    answer = world.ask(UnregisterBrokerResponse, UnregisterBroker(token=world.token(), broker_id=7))
    assert answer.error_code == ErrorCode.broker_id_not_registered
    assert answer.error_message == "Broker ID 7 is not currently registered"


# -- whatever happens

_STEPS = st.one_of(
    st.tuples(
        st.just("reassign"),
        st.permutations((1, 2, 3, 4, 5)).flatmap(
            lambda order: st.integers(1, 4).map(lambda count: tuple(order[:count]))
        ),
    ),
    st.tuples(st.just("cancel"), st.just(())),
    st.tuples(st.just("isr"), st.sets(st.integers(1, 5), max_size=5).map(tuple)),
    st.tuples(st.just("kill"), st.integers(1, 5).map(lambda each: (each,))),
    st.tuples(st.just("restart"), st.integers(1, 5).map(lambda each: (each,))),  # after an unclean shutdown
    st.tuples(st.just("return"), st.integers(1, 5).map(lambda each: (each,))),  # after a clean one
)


@pytest.mark.thorough
@settings(max_examples=60, deadline=None)
@given(st.lists(_STEPS, max_size=14))
def test_no_change_loses_the_last_replica_in_sync(steps: list[tuple[str, tuple[int, ...]]]) -> None:
    """Whoever leads after a change was in the ISR before it, or eligible, and so holds every committed record. If there
    was nobody, it was the last leader. A reassignment ends only with its whole target in sync. The world checks the
    invariants of the image after each step."""
    world = made(1, 2, 3)
    before = world.partition()
    for kind, brokers in steps:
        live = world.controller.image.live_broker_ids()
        if kind == "reassign":
            reassign(world, *brokers)
        elif kind == "cancel":
            reassign(world, cancel=True)
        elif kind == "isr" and before.leader != NO_LEADER:
            world.alter_isr(tuple({before.leader, *brokers} & set(before.replicas)))
        elif kind == "kill" and brokers[0] in live:
            world.kill(brokers[0])
        elif kind in ("restart", "return") and brokers[0] not in live:
            world.restart(brokers[0], is_clean=kind == "return")
        after = world.partition()
        _check_change(before, after, kind, set(brokers) if kind == "restart" else set())
        before = after


def _check_change(before: PartitionState, after: PartitionState, kind: str, registered: set[int]) -> None:
    grown = set(after.isr) - {*before.isr, *before.elr, *before.last_known_elr}
    assert not grown or kind == "isr", "only the leader's proposal brings a replica into the ISR"
    # A completed reassignment may leave only those that the leader's proposal has just brought in.
    held = {*before.isr, *before.elr} or {*before.last_known_elr}
    # A restart may take away the last one that holds it for sure.
    left = {*after.isr, *after.elr} or {*after.last_known_elr}
    assert left & held or kind in ("isr", "restart"), "nobody is left who held what was committed"
    # The leader's own proposal may complete a reassignment, and the new leader may be of that proposal.
    assert kind == "isr" or not is_unclean(before, after, registered=registered)
    if set(before.replicas) - set(after.replicas):
        assert after.leader_epoch > before.leader_epoch
        assert kind == "cancel" or set(after.replicas) <= set(after.isr), "the target is in sync"
