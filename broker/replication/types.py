"""The vocabulary of the replication core: events and actions. Values only.

Error codes are Kafka's integers (kio's ErrorCode is an IntEnum of them). Offsets are positions; an end offset is the
position after the last record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kio.schema.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class BecomeLeader:
    """The image names this broker as leader, or it has a new ISR or new replicas within the same leader epoch."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    log_end_offset: int
    min_insync_replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BecomeFollower:
    """Another broker leads, or nobody (leader_id -1)."""

    leader_id: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    log_end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokersChanged:
    """Broker epochs of the brokers that may be in an ISR: registered, not fenced, not shutting down (KIP-841)."""

    eligible_epochs: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplica:
    """The replica is removed from this broker, or the broker stops. Waiting produces fail with code 6
    (NOT_LEADER_OR_FOLLOWER)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """The leader's own log grew to `log_end_offset`."""

    log_end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerFetched:
    """A follower fetched from `fetch_offset`, so it holds everything below. The caller has checked the leader epoch."""

    replica_id: int
    fetch_offset: int
    broker_epoch: int = -1


@dataclass(slots=True, kw_only=True)
class FetchTimes:
    """When a follower last fetched in a session (KIP-227). The code that takes its requests updates it."""

    last_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerIdles:
    """A follower that has everything continues to fetch without naming this partition. Each fetch of its session
    counts.

    This holds until the next append, FollowerFetched or change of roles. `fetches` None: the fetches of its session do
    not count any more.
    """

    replica_id: int
    fetches: FetchTimes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitReplication:
    """An acks=all produce waits. Answer `token` when the high watermark reaches `required_offset`, or at
    `deadline_ms`."""

    token: int
    required_offset: int
    deadline_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposalAnswered:
    """The answer to AlterPartition. Error 0: the controller agreed, and the change will come in the metadata log
    (BecomeLeader).

    `attempt` is the attempt of the ProposeIsr that it answers. An answer says nothing about a later attempt.
    """

    attempt: int
    error_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedFromLeader:
    """A fetch response of `leader_epoch` was appended (perhaps with no records)."""

    leader_epoch: int
    leader_high_watermark: int
    log_end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncated:
    """The follower's log was cut to `log_end_offset`."""

    log_end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """`next_deadline_ms()` has come."""


Event = (
    BecomeLeader
    | BecomeFollower
    | BrokersChanged
    | StopReplica
    | Appended
    | FollowerFetched
    | FollowerIdles
    | AwaitReplication
    | IsrProposalAnswered
    | FetchedFromLeader
    | Truncated
    | Tick
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeIsr:
    """Send AlterPartition and report the answer, or its failure, as IsrProposalAnswered.

    `attempt` is different each time, also if the same ISR is proposed again. The answer must contain it.
    """

    attempt: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]  # One for each broker in isr, in the same order. -1 if unknown.


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkAdvanced:
    high_watermark: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrChanged:
    """The committed ISR, when this leader first learns it."""

    leader_epoch: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteProduce:
    token: int
    error_code: ErrorCode


Action = ProposeIsr | HighWatermarkAdvanced | IsrChanged | CompleteProduce
