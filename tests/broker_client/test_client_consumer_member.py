"""A member of the new protocol (KIP-848), driven by hand: joining, reconciling, acknowledging, losing, leaving."""

from __future__ import annotations

import random

import pytest

from broker.client.core.config import parse_consumer
from broker.client.core.groups.consumer import ConsumerMember
from broker.client.core.groups.events import (
    AskTopics,
    ConsumerHeartbeatAnswered,
    CoordinatorGone,
    CoordinatorReady,
    DropCoordinator,
    Leave,
    LeftAnswered,
    Out,
    SendConsumerHeartbeat,
    Step,
    StepDone,
    StepKind,
)
from broker.client.core.groups.heartbeats import State
from broker.wire.errors import ErrorCode
from tests.broker_client.heartbeat_member import A0, A1, A2, KNOWN, SETTINGS, A, World, answer


def member(**properties: str) -> World[ConsumerMember]:
    settings = parse_consumer(SETTINGS | {"group.protocol": "consumer"} | properties)
    return World(ConsumerMember(settings, random.Random(1)))


def test_the_first_heartbeat_tells_everything_and_later_ones_nothing() -> None:
    world = member()
    first = world.joins()
    assert isinstance(first, SendConsumerHeartbeat)
    assert (first.member_epoch, first.topics, first.owned, first.is_full) == (0, {"a"}, frozenset(), True)
    world.give(answer(1))
    [second] = world.wait(1000)
    assert isinstance(second, SendConsumerHeartbeat)
    assert (second.member_epoch, second.topics, second.owned, second.is_full) == (1, None, None, False)
    assert second.member_id == first.member_id != ""


def test_an_assignment_is_taken_step_by_step_and_then_acknowledged() -> None:
    world = member()
    world.joins()
    assert world.give(answer(1, 0, 1)) == [AskTopics(topics=frozenset({"a"}))]  # whose id is that?
    assert world.core.step() is None
    world.give(KNOWN)
    step, [told] = world.carry_out()
    both = frozenset({A0, A1})
    assert step == Step(kind=StepKind.COMPLETE, assigned=both, remaining=both)
    assert isinstance(told, SendConsumerHeartbeat)
    assert told.owned == {(A, 0), (A, 1)}
    world.give(answer(2, 1, 2))
    step, [told] = world.carry_out()
    assert (step.revoked, step.assigned) == ({A0}, {A2})
    assert isinstance(told, SendConsumerHeartbeat)
    assert (told.member_epoch, told.owned) == (2, {(A, 1), (A, 2)})
    assert world.give(answer(2)) == []


def test_heartbeats_go_on_while_the_application_works_and_do_not_acknowledge() -> None:
    world = member()
    world.owns(0)
    world.wait(1000)
    world.give(answer(2, 0, 1))
    world.core.begin_step()
    [beat] = world.wait(1000)
    assert isinstance(beat, SendConsumerHeartbeat)
    assert beat.owned is None
    world.give(answer(3, 0, 1, 2))
    [told] = world.give(StepDone()) or [None]
    assert told is None  # what it has is not the target any more
    assert world.core.step() == Step(
        kind=StepKind.COMPLETE, assigned=frozenset({A2}), remaining=frozenset({A0, A1, A2})
    )


@pytest.mark.parametrize("error", [ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id])
def test_a_fenced_member_loses_everything_and_joins_with_the_same_id(error: ErrorCode) -> None:
    world = member()
    world.owns(0)
    world.wait(1000)
    world.give(answer(0, error=error))
    assert world.wait(5000) == []  # until the application has heard of it
    step = world.core.begin_step()
    assert step == Step(kind=StepKind.LOST, revoked=frozenset({A0}))
    [join] = world.give(StepDone())
    assert isinstance(join, SendConsumerHeartbeat)
    assert (join.member_epoch, join.member_id) == (0, world.core.member_id)


def test_after_the_coordinator_moved_everything_is_told_again() -> None:
    world = member()
    world.owns(0)
    world.wait(1000)
    assert world.give(answer(0, error=ErrorCode.not_coordinator)) == [
        DropCoordinator(reason="ConsumerGroupHeartbeat: not_coordinator")
    ]
    world.give(CoordinatorGone())
    world.wait(200)
    [beat] = world.give(CoordinatorReady())
    assert isinstance(beat, SendConsumerHeartbeat)
    assert (beat.member_epoch, beat.topics, beat.owned, beat.is_full) == (1, {"a"}, {(A, 0)}, True)
    assert world.core.owned == {A0}


def test_who_does_not_poll_leaves_and_joins_when_it_polls_again() -> None:
    world = member()
    world.owns(0)
    [leave] = world.wait(60_000, is_polling=False)
    assert isinstance(leave, SendConsumerHeartbeat)
    assert leave.member_epoch == -1
    assert world.give(LeftAnswered()) == []
    assert world.core.state is State.LOST
    world.core.begin_step()
    [join] = world.give(StepDone())
    assert isinstance(join, SendConsumerHeartbeat)
    assert join.member_epoch == 0


@pytest.mark.parametrize(
    ("instance_id", "leaves_group", "epoch"), [("", None, -1), ("i", None, -2), ("i", True, -1), ("", True, -1)]
)
def test_leaving_is_for_good_unless_the_member_is_static(
    instance_id: str, leaves_group: bool | None, epoch: int
) -> None:
    world = member(**({"group.instance.id": instance_id} if instance_id else {}))
    world.owns(0)
    [leave] = world.give(Leave(reason="bye", leaves_group=leaves_group))
    assert isinstance(leave, SendConsumerHeartbeat)
    assert leave.member_epoch == epoch
    assert world.give(LeftAnswered()) == [Out()]
    assert world.core.state is State.OUT


def test_an_error_for_good_is_told_and_the_member_stops() -> None:
    world = member(**{"group.remote.assignor": "no-such"})
    world.joins()
    world.give(ConsumerHeartbeatAnswered(error=ErrorCode.unsupported_assignor, message="there is: uniform, range"))
    assert world.core.error is not None
    assert "UNSUPPORTED_ASSIGNOR" in str(world.core.error)
    assert "there is: uniform, range" in str(world.core.error)
    assert world.wait(100_000) == []
