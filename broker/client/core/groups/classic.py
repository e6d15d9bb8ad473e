"""A member under the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, assignments made by the leader.

Owns the state of the membership. `CoordinatorLink` keeps its time limits. `Assigning` owns the part that assigns
partitions. Knows no socket and no thread. Shown by tests/broker_client/test_client_classic_member.py.

- Heartbeats go on between polls. A member whose application does not poll for max.poll.interval.ms leaves (KIP-62).
- Eager members give up everything before they join. Cooperative ones give up only what moved, and then join again
  (KIP-429).
- Static members keep their place (KIP-345). A leader that comes back may be told to keep the assignment (KIP-814).
"""

from __future__ import annotations

import random
from enum import Enum

from broker.client.core.config import ConsumerConfig
from broker.client.core.errors import KafkaError
from broker.client.core.groups.assigning import Assigning
from broker.client.core.groups.coordinator_link import CoordinatorLink, Due
from broker.client.core.groups.events import (
    NO_GENERATION,
    NO_MEMBER_ID,
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
    Partitions,
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
    TopicsKnown,
)
from broker.client.core.groups.steps import Steps
from broker.wire.errors import ErrorCode


class State(Enum):
    OUT = "out"  # not subscribed
    PREPARING = "preparing"  # the application gives up partitions before a join
    JOINING = "joining"
    ASKING = "asking"  # the leader asks how many partitions the topics have
    SYNCING = "syncing"
    COMPLETING = "completing"  # the application takes what it was assigned
    STABLE = "stable"
    LEAVING = "leaving"
    FAILED = "failed"


_MEMBER = frozenset({State.PREPARING, State.COMPLETING, State.STABLE})  # heartbeats are sent if it has joined
_COORDINATOR_ERRORS = frozenset({ErrorCode.not_coordinator, ErrorCode.coordinator_not_available})
_LOST_ERRORS = frozenset({ErrorCode.unknown_member_id, ErrorCode.illegal_generation})
_REPEATED = frozenset({ErrorCode.coordinator_load_in_progress, ErrorCode.rebalance_in_progress})


class ClassicMember:
    """Invariant: a step is offered only in PREPARING and COMPLETING. In FAILED, only the step that gives up everything
    is offered."""

    def __init__(self, config: ConsumerConfig, rng: random.Random) -> None:
        self._config = config
        self._topics: frozenset[str] = frozenset()
        self._steps = Steps()
        self._lost_while_taken = False
        self._link = CoordinatorLink(config, rng)
        self._assigning = Assigning(config)
        self._reason = ""  # the reason of the next join, for the coordinator's log (KIP-800)
        self._wanted_again = ""  # if not empty: why the member joins again as soon as the present rebalance is over
        self.state = State.OUT
        self.generation = NO_GENERATION
        self.member_id = NO_MEMBER_ID
        self.owned: Partitions = frozenset()
        self.error: KafkaError | None = None
        self.group_topics: frozenset[str] = frozenset()

    # -- events ---------------------------------------------------------------------------------------------------

    def handle(self, event: Event, now_ms: int) -> list[Action]:
        actions: list[Action] = []
        match event:
            case Tick():
                self._link.polled(event.polled_ms)
            case Subscribe():
                actions = self._on_subscribe(event, now_ms)
            case Leave():
                actions = self._on_leave(event, now_ms)
            case StepDone():
                self._on_step_done(now_ms)
            case TopicsKnown():
                actions = self._on_topics(event, now_ms)
            case CoordinatorReady():
                self._link.found(now_ms)
            case CoordinatorGone():
                self._link.lost()
            case Joined():
                actions = self._on_joined(event, now_ms)
            case Synced():
                actions = self._on_synced(event, now_ms)
            case HeartbeatAnswered():
                actions = self._on_heartbeat(event, now_ms)
            case LeftAnswered():
                actions = self._on_left(now_ms)
            case _:
                raise AssertionError(f"{event} is not of this protocol")
        return actions + self._due(now_ms)

    @property
    def is_active(self) -> bool:
        """Whether the member needs the coordinator."""
        return self.state not in (State.OUT, State.FAILED)

    def step(self) -> Step | None:
        return self._steps.offered

    def begin_step(self) -> Step:
        return self._steps.begin()

    def next_deadline_ms(self) -> int:
        """The time from which a Tick has something to do."""
        return self._link.next_deadline_ms(is_member=self._is_member(), has_question=self._has_question())

    # -- events of the application --------------------------------------------------------------------------------

    def _on_subscribe(self, event: Subscribe, now_ms: int) -> list[Action]:
        if event.topics == self._topics and self.state is not State.OUT:
            return []
        self._topics = event.topics
        self.group_topics = self.group_topics | event.topics
        self._link.polled(now_ms)
        if self.state is State.OUT:
            self.error = None
            self._prepare(now_ms, reason="subscribed")
            return []
        return self._want_rejoin("the subscription changed", now_ms)

    def _on_leave(self, event: Leave, now_ms: int) -> list[Action]:
        """The application has already given up everything."""
        was_known = bool(self.member_id)
        self._steps.clear()
        self._lost_while_taken = False
        self.owned = frozenset()
        self._topics = self.group_topics = frozenset()
        if self.state in (State.OUT, State.FAILED, State.LEAVING):
            self.state = State.OUT
            return [Out()]
        leaves = self._config.group_instance_id == "" if event.leaves_group is None else event.leaves_group
        if not (leaves and was_known and self._link.is_there):
            return self._on_left(now_ms)
        self.state = State.LEAVING
        self._link.is_asked = True
        return [SendLeave(member_id=self.member_id, reason=event.reason)]

    def _on_left(self, now_ms: int) -> list[Action]:
        if self.state is not State.LEAVING and (self.state is State.OUT or self._topics):
            return []  # this answers a member that has left because the application did not poll
        self.state = State.OUT
        self._forget_membership()
        if self._topics:  # the application subscribed again before the answer came
            self._prepare(now_ms, reason="subscribed")
        return [Out()]

    # -- steps of the application ---------------------------------------------------------------------------------

    def _prepare(self, now_ms: int, *, reason: str, is_lost: bool = False) -> None:
        """The application must poll before the member joins. A member that never polls must not own partitions."""
        self.state = State.PREPARING
        self._reason = reason
        self._link.is_asked = False
        if self._steps.taken is not None:
            self._lost_while_taken = self._lost_while_taken or is_lost
        elif is_lost:
            self._steps.offer_lost(self.owned)
        else:
            revoked = self._assigning.given_up_before_join(self.owned, self._topics)
            self._steps.offer_prepare(self.owned, revoked=revoked)

    def _on_step_done(self, now_ms: int) -> None:
        taken = self._steps.end()
        if taken is None:
            return  # the member left meanwhile
        self.owned = taken.remaining
        if self.state is State.FAILED:
            self._steps.offer_last(self.owned)
        elif self.state is State.PREPARING:
            if self._lost_while_taken or taken.kind is StepKind.COMPLETE:
                is_lost, self._lost_while_taken = self._lost_while_taken, False
                self._prepare(now_ms, reason=self._reason, is_lost=is_lost)
            else:
                self._set_joining()
        elif self.state is State.COMPLETING:
            self.state = State.STABLE
            if self._wanted_again:
                self._prepare(now_ms, reason=self._wanted_again)

    def _set_joining(self) -> None:
        self.state = State.JOINING
        self._link.is_asked = False

    def _want_rejoin(self, reason: str, now_ms: int) -> list[Action]:
        """In STABLE the member joins again at once. If an assignment is under way, it joins after it."""
        if self.state is State.STABLE:
            self._prepare(now_ms, reason=reason)
        elif self.state is State.COMPLETING and self._steps.taken is None:
            # The application never sees an assignment that it has not taken yet. The next join tells which partitions
            # the application has.
            self._prepare(now_ms, reason=reason)
        elif self.state in (State.COMPLETING, State.ASKING, State.SYNCING, State.JOINING):
            self._wanted_again = reason
        return []

    # -- answers of the coordinator -------------------------------------------------------------------------------

    def _on_joined(self, event: Joined, now_ms: int) -> list[Action]:
        if self.state is not State.JOINING:
            return []
        self._link.is_asked = False
        if event.error is ErrorCode.member_id_required:
            self.member_id = event.member_id  # KIP-394: the next JoinGroup carries this id
            return []
        if event.error is not ErrorCode.none:
            return self._on_error(event.error, "JoinGroup", now_ms)
        self._link.settled(now_ms)
        self.member_id, self.generation = event.member_id, event.generation
        try:
            led_topics = self._assigning.joined(event, self._topics)
        except KafkaError as error:
            return self._fail(error)
        self.group_topics = self._topics if led_topics is None else led_topics
        self.state = State.SYNCING if led_topics is None else State.ASKING
        return [] if led_topics is None else [AskTopics(topics=led_topics)]

    def _on_topics(self, event: TopicsKnown, now_ms: int) -> list[Action]:
        counts = {name: info.partitions for name, info in event.topics.items()}
        if self.state is State.ASKING and event.is_answer:
            self._assigning.assign(counts)
            self.state = State.SYNCING
            self._link.is_asked = False
        elif not event.is_answer and (changed := self._assigning.take_changed(counts)):
            return self._want_rejoin(f"partitions of {', '.join(changed[:3])} changed", now_ms)
        return []

    def _on_synced(self, event: Synced, now_ms: int) -> list[Action]:
        if self.state is not State.SYNCING:
            return []
        self._link.is_asked = False
        if event.error is ErrorCode.rebalance_in_progress:
            self._prepare(now_ms, reason="the group is rebalancing")
            return []
        if event.error is not ErrorCode.none:
            return self._on_error(event.error, "SyncGroup", now_ms)
        self._link.settled(now_ms)
        try:
            assigned = self._assigning.synced(event.assignment, self.generation)
        except KafkaError as error:
            return self._fail(error)
        self._link.synced(now_ms)
        self.state = State.COMPLETING
        if self._assigning.is_eager:
            self._steps.offer_anew(assigned)
            return []
        if self.owned - assigned:
            self._wanted_again = "partitions were given up for others to take"
        self._steps.offer_change(self.owned, assigned)
        return []

    def _on_heartbeat(self, event: HeartbeatAnswered, now_ms: int) -> list[Action]:
        self._link.is_beating = False
        if event.error is ErrorCode.none:
            self._link.heard(now_ms)
            self._link.backoff.attempts = 0
            return []
        if not self._is_member():
            return []  # an answer of a generation that is over
        if event.error is ErrorCode.rebalance_in_progress:
            self._link.heard(now_ms)
            return self._want_rejoin("the group is rebalancing", now_ms)
        return self._on_error(event.error, "Heartbeat", now_ms)

    def _on_error(self, error: ErrorCode, what: str, now_ms: int) -> list[Action]:
        if error in _COORDINATOR_ERRORS:
            self._link.backoff.failed(now_ms)
            self._link.lost()
            return [DropCoordinator(reason=f"{what}: {error.name}")]
        if error in _LOST_ERRORS:
            return self._lose(now_ms, reason=f"{what}: {error.name}", keeps_id=error is ErrorCode.illegal_generation)
        if error in _REPEATED or error.retriable:
            self._link.backoff.failed(now_ms)
            return []
        return self._fail(KafkaError(error, f"{what} of group {self._config.group_id!r}"))

    def _lose(self, now_ms: int, *, reason: str, keeps_id: bool) -> list[Action]:
        """The coordinator does not count this member any more. Its partitions may belong to others."""
        member_id = self.member_id
        self._forget_membership()
        if keeps_id:
            self.member_id = member_id
        self._link.backoff.failed(now_ms)
        if self.owned or self._steps.taken is not None:
            self._prepare(now_ms, reason=reason, is_lost=True)
        elif self.state is not State.PREPARING:
            self._reason = reason
            self._set_joining()
        return []

    def _fail(self, error: KafkaError) -> list[Action]:
        self.error = error
        self.state = State.FAILED
        self._forget_membership()
        self._steps.offer_last(self.owned)
        return []

    # -- work that is due -----------------------------------------------------------------------------------------

    def _due(self, now_ms: int) -> list[Action]:
        match self._link.due(now_ms, is_member=self._is_member(), has_question=self._has_question()):
            case Due.LEAVE:
                return self._leave_for_not_polling(now_ms)
            case Due.DROP:
                self._link.lost()
                return [DropCoordinator(reason="no answer to a heartbeat within session.timeout.ms")]
            case Due.ASK:
                self._link.is_asked = True
                return [self._join() if self.state is State.JOINING else self._sync()]
            case Due.HEARTBEAT:
                self._link.beat(now_ms)
                return [SendHeartbeat(member_id=self.member_id, generation=self.generation)]
            case None:
                return []

    def _join(self) -> SendJoin:
        self._wanted_again = ""
        protocols = self._assigning.subscriptions(self._topics, self.owned, self.generation)
        return SendJoin(member_id=self.member_id, protocols=protocols, reason=self._reason)

    def _sync(self) -> SendSync:
        return SendSync(
            member_id=self.member_id,
            generation=self.generation,
            assignor=self._assigning.assignor,
            assignments=self._assigning.assignments,
        )

    def _leave_for_not_polling(self, now_ms: int) -> list[Action]:
        """A static member only stops its heartbeats. Its place is kept until the session times out (KIP-345)."""
        member_id = self.member_id
        has_coordinator = self._link.is_there
        self._lose(now_ms, reason="the application did not poll for max.poll.interval.ms", keeps_id=False)
        if self.state is State.JOINING:  # it had no partitions to lose; it joins when the application polls
            self._prepare(now_ms, reason=self._reason)
        if self._config.group_instance_id or not has_coordinator:
            return []
        return [SendLeave(member_id=member_id, reason="max.poll.interval.ms was exceeded")]

    # -- helpers --------------------------------------------------------------------------------------------------

    def _has_question(self) -> bool:
        return self.state in (State.JOINING, State.SYNCING)

    def _is_member(self) -> bool:
        return self.state in _MEMBER and self.generation != NO_GENERATION

    def _forget_membership(self) -> None:
        self.generation = NO_GENERATION
        self.member_id = NO_MEMBER_ID
        self._assigning.forget_members()
        self._link.expect_nothing()

    def check_invariants(self) -> None:
        assert self._steps.offered is None or self.state in (State.PREPARING, State.COMPLETING, State.FAILED)
        self._steps.check_invariants()
        self._link.check_invariants()
        assert self.generation == NO_GENERATION or self.member_id != NO_MEMBER_ID
        assert self.error is None or self.state in (State.FAILED, State.OUT)
        if self.state in (State.PREPARING, State.COMPLETING):
            assert self._steps.offered is not None or self._steps.taken is not None
