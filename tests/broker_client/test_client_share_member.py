"""A member of a share group (KIP-932), driven by hand: joining, a new assignment, losing, leaving."""

from __future__ import annotations

import random

import pytest

from broker.client.core.groups.events import (
    AskTopics,
    CoordinatorGone,
    CoordinatorReady,
    DropCoordinator,
    Leave,
    LeftAnswered,
    Out,
    SendShareHeartbeat,
    Step,
    StepKind,
)
from broker.client.core.groups.heartbeats import State
from broker.client.core.groups.share import ShareMember
from broker.client.core.shares.config import parse_share_consumer
from broker.wire.errors import ErrorCode
from tests.broker_client.heartbeat_member import A0, A1, A2, KNOWN, SETTINGS, World, answer


def member() -> World[ShareMember]:
    return World(ShareMember(parse_share_consumer(SETTINGS), random.Random(1)))


def test_the_first_heartbeat_tells_the_topics_and_later_ones_do_not() -> None:
    world = member()
    first = world.joins()
    assert isinstance(first, SendShareHeartbeat)
    assert (first.member_epoch, first.topics) == (0, {"a"})
    world.give(answer(1))
    [second] = world.wait(1000)
    assert second == SendShareHeartbeat(member_id=first.member_id, member_epoch=1, topics=None)


def test_a_new_assignment_is_one_step_and_needs_no_acknowledgement() -> None:
    world = member()
    world.joins()
    assert world.give(answer(1, 0, 1)) == [AskTopics(topics=frozenset({"a"}))]
    assert world.core.step() is None, "the topic has no name yet"
    world.give(KNOWN)
    both = frozenset({A0, A1})
    assert world.carry_out() == (Step(kind=StepKind.COMPLETE, assigned=both, remaining=both), [])
    world.give(answer(2, 1, 2))
    step, told = world.carry_out()
    assert (step.revoked, step.assigned, told) == ({A0}, {A2}, [])


def test_the_topics_are_told_again_after_an_error_and_to_another_coordinator() -> None:
    world = member()
    world.owns(0)
    world.wait(1000)
    world.give(answer(1, error=ErrorCode.coordinator_load_in_progress))
    [again] = world.wait(100)
    assert isinstance(again, SendShareHeartbeat)
    assert again.topics == {"a"}
    world.give(answer(1, error=ErrorCode.not_coordinator))
    world.give(CoordinatorGone())
    world.now_ms += 100
    [to_another] = world.give(CoordinatorReady())
    assert isinstance(to_another, SendShareHeartbeat)
    assert (to_another.topics, to_another.member_epoch) == ({"a"}, 1)


def test_a_wrong_coordinator_is_dropped() -> None:
    world = member()
    world.joins()
    [dropped] = world.give(answer(0, error=ErrorCode.not_coordinator))
    assert isinstance(dropped, DropCoordinator)


@pytest.mark.parametrize("error", [ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch])
def test_a_lost_member_gives_up_its_partitions_and_joins_again_under_its_id(error: ErrorCode) -> None:
    world = member()
    world.owns(0, 1)
    world.wait(1000)
    world.give(answer(1, error=error))
    step, _ = world.carry_out()
    assert (step.kind, step.revoked, world.core.owned) == (StepKind.LOST, {A0, A1}, frozenset())
    [join] = world.wait(100)
    assert join == SendShareHeartbeat(member_id=world.core.member_id, member_epoch=0, topics=frozenset({"a"}))


def test_a_member_that_does_not_poll_leaves_and_comes_back() -> None:
    world = member()
    world.owns(0)
    actions = world.wait(60_000, is_polling=False)
    assert actions == [SendShareHeartbeat(member_id=world.core.member_id, member_epoch=-1, topics=None)]
    assert world.core.state is State.LOST
    world.give(LeftAnswered())
    _, [join] = world.carry_out()
    assert isinstance(join, SendShareHeartbeat)
    assert join.member_epoch == 0


def test_leaving_waits_for_the_answer() -> None:
    world = member()
    world.owns(0)
    [told] = world.give(Leave(reason="closed"))
    assert isinstance(told, SendShareHeartbeat)
    assert told.member_epoch == -1
    assert world.give(LeftAnswered()) == [Out()]
    assert not world.core.is_active


def test_a_fatal_error_ends_the_membership() -> None:
    world = member()
    world.owns(0)
    world.wait(1000)
    world.give(answer(1, error=ErrorCode.group_authorization_failed))
    assert world.core.error is not None
    assert world.core.error.code == ErrorCode.group_authorization_failed
    step, _ = world.carry_out()
    assert step.kind is StepKind.LOST
    assert world.wait(100_000) == []
