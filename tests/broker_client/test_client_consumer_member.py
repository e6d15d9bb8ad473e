"""A member of the new protocol (KIP-848), driven by hand: joining, reconciling, acknowledging, losing, leaving."""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from broker.client.core.batch import TopicPartition
from broker.client.core.config import parse_consumer
from broker.client.core.groups.consumer import ConsumerMember
from broker.client.core.groups.events import (
    Action,
    AskTopics,
    ConsumerHeartbeatAnswered,
    CoordinatorGone,
    CoordinatorReady,
    DropCoordinator,
    Event,
    Leave,
    LeftAnswered,
    Out,
    SendConsumerHeartbeat,
    Step,
    StepDone,
    StepKind,
    Subscribe,
    Tick,
    TopicInfo,
    TopicsKnown,
)
from broker.client.core.groups.heartbeats import State
from broker.wire.errors import ErrorCode

A = UUID(int=7)
A0, A1, A2 = [TopicPartition("a", index) for index in range(3)]
KNOWN = TopicsKnown(topics={"a": TopicInfo(partitions=3, topic_id=str(A))}, is_answer=True)


class Harness:
    def __init__(self, **properties: object) -> None:
        settings = {
            "bootstrap.servers": "h:1",
            "group.id": "g",
            "group.protocol": "consumer",
            "max.poll.interval.ms": 60_000,
            "retry.backoff.ms": 100,
            "retry.backoff.max.ms": 100,
        }
        given = {name.replace("_", "."): value for name, value in properties.items()}
        self.core = ConsumerMember(parse_consumer(settings | given), random.Random(1))
        self.now_ms = 1000

    def give(self, event: Event) -> list[Action]:
        actions = self.core.handle(event, self.now_ms)
        self.core.check_invariants()
        return actions

    def wait(self, wait_ms: int, *, is_polling: bool = True) -> list[Action]:
        self.now_ms += wait_ms
        return self.give(Tick(polled_ms=self.now_ms if is_polling else 1000))

    def carry_out(self) -> tuple[Step, list[Action]]:
        step = self.core.begin_step()
        self.core.check_invariants()
        return step, self.give(StepDone())

    def joins(self) -> SendConsumerHeartbeat:
        assert self.give(CoordinatorReady()) == []
        [first] = self.give(Subscribe(topics=frozenset({"a"})))
        assert isinstance(first, SendConsumerHeartbeat)
        return first

    def owns(self, *partitions: int) -> None:
        self.joins()
        self.give(KNOWN)
        self.give(answer(1, *partitions))
        self.carry_out()
        self.give(answer(1))
        assert self.core.owned == {TopicPartition("a", index) for index in partitions}


def answer(epoch: int, *partitions: int, error: ErrorCode = ErrorCode.none) -> ConsumerHeartbeatAnswered:
    """Without partitions: the assignment as before."""
    assignment = frozenset((A, index) for index in partitions) if partitions else None
    return ConsumerHeartbeatAnswered(error=error, member_epoch=epoch, interval_ms=1000, assignment=assignment)


def test_the_first_heartbeat_tells_everything_and_later_ones_nothing() -> None:
    world = Harness()
    first = world.joins()
    assert (first.member_epoch, first.topics, first.owned, first.is_full) == (0, {"a"}, frozenset(), True)
    world.give(answer(1))
    [second] = world.wait(1000)
    assert isinstance(second, SendConsumerHeartbeat)
    assert (second.member_epoch, second.topics, second.owned, second.is_full) == (1, None, None, False)
    assert second.member_id == first.member_id != ""


def test_an_assignment_is_taken_step_by_step_and_then_acknowledged() -> None:
    world = Harness()
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
    world = Harness()
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
    world = Harness()
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
    world = Harness()
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
    world = Harness()
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
    world = Harness(**({"group_instance_id": instance_id} if instance_id else {}))
    world.owns(0)
    [leave] = world.give(Leave(reason="bye", leaves_group=leaves_group))
    assert isinstance(leave, SendConsumerHeartbeat)
    assert leave.member_epoch == epoch
    assert world.give(LeftAnswered()) == [Out()]
    assert world.core.state is State.OUT


def test_an_error_for_good_is_told_and_the_member_stops() -> None:
    world = Harness(group_remote_assignor="no-such")
    world.joins()
    world.give(ConsumerHeartbeatAnswered(error=ErrorCode.unsupported_assignor, message="there is: uniform, range"))
    assert world.core.error is not None
    assert "UNSUPPORTED_ASSIGNOR" in str(world.core.error)
    assert "there is: uniform, range" in str(world.core.error)
    assert world.wait(100_000) == []
