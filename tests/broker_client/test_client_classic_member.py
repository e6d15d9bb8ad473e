"""A member of the classic protocol, driven by hand: the order of what it asks and does, and each way to lose it."""

from __future__ import annotations

import random

import pytest

from broker.client.core.batch import TopicPartition
from broker.client.core.config import parse_consumer
from broker.client.core.groups.classic import ClassicMember, State
from broker.client.core.groups.encodings import (
    Subscription,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from broker.client.core.groups.events import (
    Action,
    AskTopics,
    CoordinatorGone,
    CoordinatorReady,
    DropCoordinator,
    Event,
    HeartbeatAnswered,
    Joined,
    Leave,
    LeftAnswered,
    Out,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
    Step,
    StepDone,
    StepKind,
    Subscribe,
    Synced,
    Tick,
    TopicInfo,
    TopicsKnown,
)
from broker.wire.errors import ErrorCode

A0, A1, A2 = [TopicPartition("a", index) for index in range(3)]


class Harness:
    """Feeds events at a time that the test moves; checks the invariants after each."""

    def __init__(self, strategy: str = "range", **properties: object) -> None:
        settings = {
            "bootstrap.servers": "h:1",
            "group.id": "g",
            "partition.assignment.strategy": strategy,
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 1000,
            "max.poll.interval.ms": 60_000,
            "retry.backoff.ms": 100,
            "retry.backoff.max.ms": 100,
        }
        given = {name.replace("_", "."): value for name, value in properties.items()}
        self.core = ClassicMember(parse_consumer(settings | given), random.Random(1))
        self.now_ms = 1000
        self.polled_ms = 1000

    def give(self, event: Event) -> list[Action]:
        actions = self.core.handle(event, self.now_ms)
        self.core.check_invariants()
        return actions

    def wait(self, wait_ms: int, *, is_polling: bool = True) -> list[Action]:
        self.now_ms += wait_ms
        if is_polling:
            self.polled_ms = self.now_ms
        return self.give(Tick(polled_ms=self.polled_ms))

    def carry_out(self) -> tuple[Step, list[Action]]:
        step = self.core.begin_step()
        self.core.check_invariants()
        return step, self.give(StepDone())

    def joins(self) -> SendJoin:
        """From out to the join on its way."""
        assert self.give(CoordinatorReady()) == []
        assert self.give(Subscribe(topics=frozenset({"a"}))) == []
        step, [join] = self.carry_out()
        assert step == Step(kind=StepKind.PREPARE)
        assert isinstance(join, SendJoin)
        return join

    def is_assigned(self, *partitions: TopicPartition, generation: int = 1) -> Step:
        """A follower's answers, and the step that follows."""
        [sync] = self.give(joined(generation=generation))
        assert isinstance(sync, SendSync)
        assert sync.assignments == ()
        assert self.give(Synced(assignment=encode_assignment(partitions))) == []
        step, _ = self.carry_out()
        assert self.core.owned == set(partitions)
        return step


def joined(generation: int = 1, leader: str = "other", **more: object) -> Joined:
    return Joined(generation=generation, assignor="range", leader=leader, member_id="me", **more)  # type: ignore[arg-type]


def test_a_follower_joins_syncs_takes_its_share_and_beats() -> None:
    world = Harness()
    join = world.joins()
    assert join.member_id == ""
    [[name, metadata]] = join.protocols
    assert (name, decode_subscription(metadata).topics) == ("range", {"a"})
    step = world.is_assigned(A0)
    assert step == Step(kind=StepKind.COMPLETE, assigned=frozenset({A0}), remaining=frozenset({A0}))
    assert world.core.state is State.STABLE
    assert world.wait(999) == []
    assert world.wait(1) == [SendHeartbeat(member_id="me", generation=1)]
    assert world.wait(1000) == []  # one at a time
    assert world.give(HeartbeatAnswered()) == [SendHeartbeat(member_id="me", generation=1)]


def test_the_first_join_learns_its_member_id_and_joins_again_with_it() -> None:
    world = Harness()
    world.joins()
    [again] = world.give(Joined(error=ErrorCode.member_id_required, member_id="me"))
    assert isinstance(again, SendJoin)
    assert again.member_id == "me"


def test_the_leader_asks_how_many_partitions_there_are_and_assigns_to_all() -> None:
    world = Harness()
    world.joins()
    metadata = encode_subscription(Subscription(topics=frozenset({"a", "b"})))
    members = (("me", None, metadata), ("you", None, metadata))
    assert world.give(joined(leader="me", members=members)) == [AskTopics(topics=frozenset({"a", "b"}))]
    counts = {"a": TopicInfo(partitions=3, topic_id="")}  # there is no topic b
    [sync] = world.give(TopicsKnown(topics=counts, is_answer=True))
    assert isinstance(sync, SendSync)
    assert dict(sync.assignments) == {"me": encode_assignment([A0, A1]), "you": encode_assignment([A2])}
    world.give(Synced(assignment=dict(sync.assignments)["me"]))
    world.carry_out()
    assert world.give(TopicsKnown(topics=counts, is_answer=False)) == []
    assert world.core.step() is None
    world.give(TopicsKnown(topics={"a": TopicInfo(partitions=4, topic_id="")}, is_answer=False))
    assert world.core.step() == Step(kind=StepKind.PREPARE, revoked=frozenset({A0, A1}))


def test_a_leader_that_came_back_keeps_the_assignment_and_still_watches() -> None:
    """KIP-814."""
    world = Harness(group_instance_id="static")
    world.joins()
    members = (("me", "static", encode_subscription(Subscription(topics=frozenset("a")))),)
    world.give(joined(leader="me", members=members, skips_assignment=True))
    [sync] = world.give(TopicsKnown(topics={"a": TopicInfo(partitions=3, topic_id="")}, is_answer=True))
    assert isinstance(sync, SendSync)
    assert sync.assignments == ()
    world.give(Synced(assignment=encode_assignment([A0])))
    world.carry_out()
    world.give(TopicsKnown(topics={"a": TopicInfo(partitions=4, topic_id="")}, is_answer=False))
    assert world.core.state is State.PREPARING


def test_an_eager_member_gives_everything_up_before_it_joins_again() -> None:
    world = Harness()
    world.joins()
    world.is_assigned(A0, A1)
    world.wait(1000)
    world.give(HeartbeatAnswered(error=ErrorCode.rebalance_in_progress))
    assert world.wait(1000) == [SendHeartbeat(member_id="me", generation=1)]  # while the application takes its time
    step, [join] = world.carry_out()
    assert step == Step(kind=StepKind.PREPARE, revoked=frozenset({A0, A1}))
    assert isinstance(join, SendJoin)
    assert decode_subscription(join.protocols[0][1]).owned == frozenset()


def test_a_cooperative_member_keeps_what_stays_gives_up_what_moves_and_joins_once_more() -> None:
    """KIP-429."""
    world = Harness("cooperative-sticky")
    world.joins()
    [_] = world.give(Joined(generation=1, assignor="cooperative-sticky", leader="other", member_id="me"))
    world.give(Synced(assignment=encode_assignment([A0, A1])))
    world.carry_out()
    world.wait(1000)
    world.give(HeartbeatAnswered(error=ErrorCode.rebalance_in_progress))
    step, [join] = world.carry_out()
    assert step == Step(kind=StepKind.PREPARE, remaining=frozenset({A0, A1}))
    assert isinstance(join, SendJoin)
    claimed = decode_subscription(join.protocols[0][1])
    assert (claimed.owned, claimed.generation) == ({A0, A1}, 1)
    world.give(Joined(generation=2, assignor="cooperative-sticky", leader="other", member_id="me"))
    world.give(Synced(assignment=encode_assignment([A1, A2])))
    step, _ = world.carry_out()
    assert step == Step(
        kind=StepKind.COMPLETE,
        revoked=frozenset({A0}),
        assigned=frozenset({A2}),
        remaining=frozenset({A1, A2}),
    )
    step, [join] = world.carry_out()  # by itself, for others to take what it gave up
    assert step == Step(kind=StepKind.PREPARE, remaining=frozenset({A1, A2}))
    assert isinstance(join, SendJoin)


@pytest.mark.parametrize("error", [ErrorCode.unknown_member_id, ErrorCode.illegal_generation])
def test_a_member_that_is_not_counted_any_more_loses_what_it_had_and_joins_anew(error: ErrorCode) -> None:
    world = Harness()
    world.joins()
    world.is_assigned(A0)
    world.wait(1000)
    world.give(HeartbeatAnswered(error=error))
    assert world.core.generation == -1
    step, _ = world.carry_out()
    assert step == Step(kind=StepKind.LOST, revoked=frozenset({A0}))
    [join] = world.wait(200)
    assert isinstance(join, SendJoin)
    assert join.member_id == ("me" if error is ErrorCode.illegal_generation else "")


def test_losing_the_membership_while_the_application_takes_its_share_is_told_afterwards() -> None:
    world = Harness()
    world.joins()
    world.give(joined())
    world.give(Synced(assignment=encode_assignment([A0])))
    taken = world.core.begin_step()
    assert taken.assigned == {A0}
    world.wait(1000)
    world.give(HeartbeatAnswered(error=ErrorCode.unknown_member_id))
    assert world.core.step() is None
    world.give(StepDone())
    step, _ = world.carry_out()
    assert step == Step(kind=StepKind.LOST, revoked=frozenset({A0}))
    assert isinstance(world.wait(200)[0], SendJoin)


def test_who_does_not_poll_leaves_and_joins_when_it_polls_again() -> None:
    world = Harness()
    world.joins()
    world.is_assigned(A0)
    actions = world.wait(60_000, is_polling=False)
    assert actions == [SendLeave(member_id="me", reason="max.poll.interval.ms was exceeded")]
    assert world.give(LeftAnswered()) == []
    assert world.wait(60_000, is_polling=False) == []
    step, _ = world.carry_out()
    assert step.kind is StepKind.LOST
    assert world.core.state is State.JOINING


def test_a_static_member_that_does_not_poll_falls_silent_instead() -> None:
    world = Harness(group_instance_id="static")
    world.joins()
    world.is_assigned(A0)
    assert world.wait(60_000, is_polling=False) == []
    assert world.core.step() == Step(kind=StepKind.LOST, revoked=frozenset({A0}))


def test_the_join_is_sent_again_to_the_next_coordinator() -> None:
    world = Harness()
    world.joins()
    assert world.give(CoordinatorGone()) == []
    [join] = world.give(CoordinatorReady())
    assert isinstance(join, SendJoin)
    assert world.give(joined(error=ErrorCode.not_coordinator)) == [DropCoordinator(reason="JoinGroup: not_coordinator")]


def test_a_coordinator_that_is_silent_for_the_session_timeout_is_looked_for_anew() -> None:
    world = Harness()
    world.joins()
    world.is_assigned(A0)
    world.wait(1000)
    [drop] = world.wait(9000)
    assert isinstance(drop, DropCoordinator)
    assert world.core.owned == {A0}  # it may have lasted only a moment
    assert world.give(CoordinatorReady()) == [SendHeartbeat(member_id="me", generation=1)]


def test_an_error_for_good_is_told_and_the_member_stops() -> None:
    world = Harness(group_instance_id="static")
    world.joins()
    world.is_assigned(A0)
    world.wait(1000)
    assert world.give(HeartbeatAnswered(error=ErrorCode.fenced_instance_id)) == []
    assert world.core.error is not None
    assert world.core.error.name == "FENCED_INSTANCE_ID"
    assert world.core.step() == Step(kind=StepKind.LOST, revoked=frozenset({A0}))
    world.carry_out()
    assert world.wait(100_000) == []


def test_who_leaves_says_so_unless_it_is_static() -> None:
    for instance_id, expected in (("", [SendLeave(member_id="me", reason="bye")]), ("static", [Out()])):
        world = Harness(group_instance_id=instance_id)
        world.joins()
        world.is_assigned(A0)
        assert world.give(Leave(reason="bye")) == expected
        if not instance_id:
            assert world.give(LeftAnswered()) == [Out()]
        assert world.core.state is State.OUT


def test_a_new_subscription_during_a_join_leads_to_another_one() -> None:
    world = Harness()
    world.joins()
    assert world.give(Subscribe(topics=frozenset({"a", "b"}))) == []
    world.is_assigned(A0)
    step, [join] = world.carry_out()
    assert step.kind is StepKind.PREPARE
    assert isinstance(join, SendJoin)
    assert decode_subscription(join.protocols[0][1]).topics == {"a", "b"}
