"""What the members of the protocols with one request have in common: they send heartbeats, and the broker assigns.

ConsumerGroupHeartbeat (KIP-848) and ShareGroupHeartbeat (KIP-932) differ in what a member tells, and in how it leaves.
Owns: the member epoch, when a heartbeat is due, and the steps that bring the application from its present partitions to
the assigned ones. Knows no socket and no thread.
"""

from __future__ import annotations

import base64
import random
from abc import ABC, abstractmethod
from enum import Enum
from typing import Protocol, TypeAlias
from uuid import UUID

from broker.client.core.backoff import Backoff
from broker.client.core.batch import TopicPartition
from broker.client.core.errors import KafkaError
from broker.client.core.groups.events import (
    NO_GENERATION,
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
    Partitions,
    Step,
    StepDone,
    Subscribe,
    Tick,
    TopicsKnown,
)
from broker.client.core.groups.steps import Steps
from broker.wire.errors import ErrorCode

NEVER_MS = 2**62
JOIN_EPOCH, LEAVE_EPOCH = 0, -1
Target: TypeAlias = frozenset[tuple[UUID, int]]  # topic id and partition
_ID_BYTES = 16
_COORDINATOR_ERRORS = frozenset({ErrorCode.not_coordinator, ErrorCode.coordinator_not_available})
_LOST_ERRORS = frozenset({ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch})


class State(Enum):
    OUT = "out"
    JOINING = "joining"
    MEMBER = "member"
    # The member was fenced, is unknown, or was silent for too long. The application must hear of it before the member
    # joins again.
    LOST = "lost"
    LEAVING = "leaving"
    FAILED = "failed"


class MemberConfig(Protocol):
    @property
    def group_id(self) -> str: ...
    @property
    def max_poll_interval_ms(self) -> int: ...
    @property
    def retry_backoff_ms(self) -> int: ...
    @property
    def retry_backoff_max_ms(self) -> int: ...


class HeartbeatMember(ABC):
    """Invariant: a step is offered only if `owned` differs from the target, or after the membership was lost."""

    request: str  # the name of the heartbeat, for messages

    def __init__(self, config: MemberConfig, rng: random.Random) -> None:
        self._config = config
        self._topics: frozenset[str] = frozenset()
        self._told_topics: frozenset[str] | None = None
        self._target: Target | None = None  # None: nothing was assigned yet
        self._names: dict[UUID, str] = {}
        self._asked_ms: int | None = None  # when the names of topics were asked for; None: not under way
        self._steps = Steps()
        self._has_coordinator = False
        self._is_beating = False
        self._is_hurried = False  # a heartbeat is due at once, before the interval is over
        self._interval_ms = 0
        self._beaten_ms = 0
        self._polled_ms = 0
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, rng)
        self.state = State.OUT
        self.generation = NO_GENERATION  # the member epoch
        # The client makes the member id. It keeps it for its whole life (KIP-1082).
        self.member_id = base64.urlsafe_b64encode(rng.randbytes(_ID_BYTES)).decode().rstrip("=")
        self.owned: Partitions = frozenset()
        self.error: KafkaError | None = None
        self.group_topics: frozenset[str] = frozenset()

    # -- what the protocols have of their own ---------------------------------------------------------------------

    @abstractmethod
    def _heartbeat(self, epoch: int) -> Action:
        """What the broker is told now, with an epoch of at least 0."""

    @abstractmethod
    def _farewell(self, leaves_group: bool | None) -> Action | None:
        """The heartbeat that leaves the group, or None if the member goes without a word. `leaves_group` is what the
        application chose; None: the protocol's default."""

    @abstractmethod
    def _tell_everything(self) -> None:
        """The next heartbeat tells all, because the broker may not know what earlier ones told."""

    def _accept(self, answer: ConsumerHeartbeatAnswered) -> None:
        if answer.assignment is not None:
            self._target = answer.assignment

    def _must_acknowledge(self) -> bool:
        """Asked when the application has exactly the partitions that are assigned."""
        return False

    # -- events ---------------------------------------------------------------------------------------------------

    def handle(self, event: Event, now_ms: int) -> list[Action]:
        actions: list[Action] = []
        match event:
            case Tick():
                self._polled_ms = max(self._polled_ms, event.polled_ms)
            case Subscribe():
                self._on_subscribe(event, now_ms)
            case Leave():
                actions = self._on_leave(event, now_ms)
            case StepDone():
                self._on_step_done(now_ms)
            case TopicsKnown():
                self._on_topics(event)
            case CoordinatorReady():
                self._has_coordinator = self._is_hurried = True
                self._tell_everything()
            case CoordinatorGone():
                self._has_coordinator = self._is_beating = False
            case ConsumerHeartbeatAnswered():
                actions = self._on_answer(event, now_ms)
            case LeftAnswered():
                actions = self._on_left(now_ms)
            case _:
                raise AssertionError(f"{event} is not of this protocol")
        return actions + self._reconcile(now_ms) + self._due(now_ms)

    @property
    def is_active(self) -> bool:
        """Whether the member needs the coordinator."""
        return self.state not in (State.OUT, State.FAILED)

    def step(self) -> Step | None:
        return self._steps.offered

    def begin_step(self) -> Step:
        return self._steps.begin()

    def next_deadline_ms(self) -> int:
        deadlines = [NEVER_MS]
        if self.state is State.MEMBER:
            deadlines.append(self._polled_ms + self._config.max_poll_interval_ms)
        if self._is_beatable():
            deadlines.append(self._next_heartbeat_ms())
        if self._asked_ms is not None and self._is_reconciling() and self._has_unknown_topic():
            deadlines.append(self._asked_ms + self._config.retry_backoff_max_ms)
        return min(deadlines)

    # -- events of the application --------------------------------------------------------------------------------

    def _on_subscribe(self, event: Subscribe, now_ms: int) -> None:
        if event.topics == self._topics and self.state is not State.OUT:
            return
        self._topics = self.group_topics = event.topics
        self._polled_ms = max(self._polled_ms, now_ms)
        if self.state is State.OUT:
            self.error = None
            self._join(now_ms)
        self._is_hurried = True

    def _join(self, now_ms: int) -> None:
        self.state = State.JOINING
        self.generation = NO_GENERATION
        self._target = None
        self._is_hurried = True
        self._tell_everything()

    def _on_leave(self, event: Leave, now_ms: int) -> list[Action]:
        was_member = self.state in (State.JOINING, State.MEMBER) and self.generation != NO_GENERATION
        self._steps.clear()
        self._target = None
        self.owned = frozenset()
        self._topics = self.group_topics = frozenset()
        self.state = State.LEAVING
        farewell = self._farewell(event.leaves_group) if was_member and self._has_coordinator else None
        return self._on_left(now_ms) if farewell is None else [farewell]

    def _on_left(self, now_ms: int) -> list[Action]:
        if self.state is not State.LEAVING:
            return []
        self.state = State.OUT
        self.generation = NO_GENERATION
        if self._topics:  # the application subscribed again before the answer came
            self._join(now_ms)
        return [Out()]

    # -- steps of the application ---------------------------------------------------------------------------------

    def _reconcile(self, now_ms: int) -> list[Action]:
        """Offers the step that leads from the partitions of the application to the assigned ones."""
        if not self._is_reconciling() or self._target is None:
            return []
        if self._has_unknown_topic():
            if self._asked_ms is not None and now_ms < self._asked_ms + self._config.retry_backoff_max_ms:
                return []
            self._asked_ms = now_ms
            return [AskTopics(topics=self._topics)]
        wanted = frozenset(TopicPartition(self._names[topic_id], index) for topic_id, index in self._target)
        if wanted == self.owned:
            self._steps.offered = None
            self._is_hurried |= self._must_acknowledge()
            return []
        self._steps.offer_change(self.owned, wanted)
        return []

    def _is_reconciling(self) -> bool:
        return self.state is State.MEMBER and self._target is not None and self._steps.taken is None

    def _has_unknown_topic(self) -> bool:
        return any(topic_id not in self._names for topic_id, _ in self._target or ())

    def _on_step_done(self, now_ms: int) -> None:
        taken = self._steps.end()
        if taken is None:
            return  # the member left meanwhile
        self.owned = taken.remaining
        if self.state in (State.LOST, State.FAILED):
            self._offer_lost(now_ms)

    def _offer_lost(self, now_ms: int) -> None:
        self._steps.offer_last(self.owned)
        if self.state is State.LOST and self._steps.taken is None and not self.owned:
            self._join(now_ms)

    def _on_topics(self, event: TopicsKnown) -> None:
        if event.is_answer:
            self._asked_ms = None
        self._names |= {UUID(info.topic_id): name for name, info in event.topics.items() if info.topic_id}

    # -- answers of the coordinator -------------------------------------------------------------------------------

    def _on_answer(self, event: ConsumerHeartbeatAnswered, now_ms: int) -> list[Action]:
        self._is_beating = False
        if self.state not in (State.JOINING, State.MEMBER):
            return []
        if event.error is not ErrorCode.none:
            return self._on_error(event, now_ms)
        self._backoff.succeeded()
        self.state = State.MEMBER
        self.generation = event.member_epoch
        self._interval_ms = event.interval_ms
        self._accept(event)
        return []

    def _on_error(self, event: ConsumerHeartbeatAnswered, now_ms: int) -> list[Action]:
        error = event.error
        self._tell_everything()
        if error in _COORDINATOR_ERRORS:
            self._back_off(now_ms)
            self._has_coordinator = False
            return [DropCoordinator(reason=f"{self.request}: {error.name}")]
        if error in _LOST_ERRORS:
            self._back_off(now_ms)
            self._lose(now_ms)
            return []
        if error.retriable:
            self._back_off(now_ms)
            return []
        text = f": {event.message}" if event.message else ""
        self.error = KafkaError(error, f"{self.request} of group {self._config.group_id!r}{text}")
        self.state = State.FAILED
        self.generation = NO_GENERATION
        self._offer_lost(now_ms)
        return []

    def _lose(self, now_ms: int) -> None:
        self.state = State.LOST
        self.generation = NO_GENERATION
        self._target = None
        self._offer_lost(now_ms)

    # -- work that is due -----------------------------------------------------------------------------------------

    def _is_beatable(self) -> bool:
        return self._has_coordinator and not self._is_beating and self.state in (State.JOINING, State.MEMBER)

    def _next_heartbeat_ms(self) -> int:
        due_ms = 0 if self._is_hurried else self._beaten_ms + self._interval_ms
        return max(due_ms, self._backoff.not_before_ms)

    def _due(self, now_ms: int) -> list[Action]:
        if self.state is State.MEMBER and now_ms >= self._polled_ms + self._config.max_poll_interval_ms:
            return self._leave_for_not_polling(now_ms)
        if not self._is_beatable() or now_ms < self._next_heartbeat_ms():
            return []
        self._is_beating = True
        self._is_hurried = False
        self._beaten_ms = now_ms
        return [self._heartbeat(JOIN_EPOCH if self.state is State.JOINING else self.generation)]

    def _leave_for_not_polling(self, now_ms: int) -> list[Action]:
        """The broker is told at once. When the application polls next, it is told, and the member joins again."""
        if not self.owned and self._steps.taken is None:
            self._polled_ms = now_ms  # it owns no partitions, so it withholds none: it stays a member
            return []
        farewell = self._farewell(None) if self._has_coordinator else None
        self._lose(now_ms)
        return [] if farewell is None else [farewell]

    def _back_off(self, now_ms: int) -> None:
        self._backoff.failed(now_ms)
        self._is_hurried = True

    def check_invariants(self) -> None:
        self._steps.check_invariants()
        assert self.error is None or self.state in (State.FAILED, State.OUT)
        assert self.state is not State.MEMBER or self.generation >= 0
        step = self._steps.offered
        if step is not None:
            assert step.revoked <= self.owned
            assert step.remaining == (self.owned - step.revoked) | step.assigned
