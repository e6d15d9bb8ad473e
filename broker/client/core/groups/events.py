"""The events and actions of a member's core. The group protocols share them.

A *step* is a change of the assignment that the application's own thread must carry out inside `poll`: give up
partitions, take new ones, call the listener. The core offers one step at a time. `begin_step` says that the application
has begun the step. Until `StepDone` the core does not rely on anything that the step changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias
from uuid import UUID

from broker.client.core.batch import TopicPartition
from broker.client.core.errors import KafkaError
from broker.wire.errors import ErrorCode

Partitions: TypeAlias = frozenset[TopicPartition]
NO_GENERATION = -1
NO_MEMBER_ID = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    partitions: int
    topic_id: str  # empty when the broker does not tell


# -- events ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribe:
    """The topics to read from now on."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """The member leaves for good, or until the next Subscribe. If `leaves_group` is None, the kind of member decides:
    static members stay in the group."""

    reason: str
    leaves_group: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Time has passed. `polled_ms` is when the application last called `poll`."""

    polled_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDone:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsKnown:
    """The answer to AskTopics, or news of topics. A topic that is missing does not exist."""

    topics: Mapping[str, TopicInfo]
    is_answer: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorReady:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorGone:
    """Requests that wait for an answer will get none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The answer to JoinGroup. `members` are (member id, instance id, metadata). Only the leader gets them; for others
    it is empty."""

    error: ErrorCode = ErrorCode.none
    generation: int = NO_GENERATION
    assignor: str = ""
    leader: str = ""
    member_id: str = NO_MEMBER_ID
    skips_assignment: bool = False
    members: tuple[tuple[str, str | None, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    error: ErrorCode = ErrorCode.none
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatAnswered:
    error: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatAnswered:
    """The answer to ConsumerGroupHeartbeat or ShareGroupHeartbeat, which have the same fields. If `assignment` is None,
    the assignment has not changed."""

    error: ErrorCode = ErrorCode.none
    message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    interval_ms: int = 0
    assignment: frozenset[tuple[UUID, int]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftAnswered:
    """The member has left, or no answer will come any more. In both cases it is out of the group, at the latest after
    its session timeout."""


Event: TypeAlias = (
    Subscribe
    | Leave
    | Tick
    | StepDone
    | TopicsKnown
    | CoordinatorReady
    | CoordinatorGone
    | Joined
    | Synced
    | HeartbeatAnswered
    | ConsumerHeartbeatAnswered
    | LeftAnswered
)

# -- actions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SendJoin:
    member_id: str
    protocols: tuple[tuple[str, bytes], ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SendSync:
    member_id: str
    generation: int
    assignor: str
    assignments: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendHeartbeat:
    member_id: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendConsumerHeartbeat:
    """A field that is None has not changed since it was last told."""

    member_id: str
    member_epoch: int
    topics: frozenset[str] | None
    owned: frozenset[tuple[UUID, int]] | None
    is_full: bool  # also send the fields that never change: rebalance timeout, assignor, rack


@dataclass(frozen=True, slots=True, kw_only=True)
class SendShareHeartbeat:
    """`topics` is None if the subscription has not changed since it was last told."""

    member_id: str
    member_epoch: int
    topics: frozenset[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendLeave:
    member_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskTopics:
    topics: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropCoordinator:
    """The broker is no longer the coordinator, or does not answer. The shell must look for the coordinator again."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Out:
    """The member has left. Nobody needs to wait for it any longer."""


Action: TypeAlias = (
    SendJoin
    | SendSync
    | SendHeartbeat
    | SendConsumerHeartbeat
    | SendShareHeartbeat
    | SendLeave
    | AskTopics
    | DropCoordinator
    | Out
)


class StepKind(Enum):
    PREPARE = "prepare"  # before a rebalance: the application gives up `revoked`
    COMPLETE = "complete"  # after a rebalance: the application gives up `revoked` and takes `assigned`
    LOST = "lost"  # `revoked` already belongs to other members: commits would be refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    kind: StepKind
    revoked: Partitions = frozenset()
    assigned: Partitions = frozenset()
    remaining: Partitions = frozenset()  # all partitions that the member has after the step


class MemberCore(Protocol):
    """The core of a member, under one of the three group protocols. `owned` are the partitions that the application
    knows it has."""

    generation: int  # the generation of the classic protocol, or the member epoch of the others
    member_id: str
    owned: Partitions
    error: KafkaError | None  # why the member cannot continue
    group_topics: frozenset[str]  # topics whose numbers of partitions the core must be told

    @property
    def is_active(self) -> bool: ...
    def handle(self, event: Event, now_ms: int) -> list[Action]: ...
    def step(self) -> Step | None: ...
    def begin_step(self) -> Step: ...
    def next_deadline_ms(self) -> int: ...
    def check_invariants(self) -> None: ...
