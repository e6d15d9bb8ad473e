"""The events that every role of a replica can get, and what all roles share.

The methods here do nothing. A role overrides those of the events that concern it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from kio.schema.errors import ErrorCode

from broker.replication.transitions import Role
from broker.replication.types import (
    Action,
    Appended,
    AwaitReplication,
    CompleteProduce,
    FetchedFromLeader,
    FetchTimes,
    FollowerFetched,
    FollowerIdles,
    IsrProposalAnswered,
    Truncated,
)

UNKNOWN_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationConfig:
    broker_id: int
    replica_lag_time_max_ms: int = 30_000  # replica.lag.time.max.ms
    proposal_retry_ms: int = 200  # time between two AlterPartition requests of the same proposal


@dataclass(slots=True, kw_only=True)
class FollowerState:
    """What a leader knows about a follower."""

    log_end_offset: int = UNKNOWN_OFFSET
    last_caught_up_ms: int = 0
    last_fetch_ms: int = 0
    leader_end_offset_at_last_fetch: int = UNKNOWN_OFFSET
    broker_epoch: int = -1
    idle: FetchTimes | None = None  # times of its session while it has everything (FollowerIdles)

    def end_idling(self) -> None:
        """Take over the times of the session's fetches until now. Each of them asked from our log end offset."""
        if self.idle is not None:
            self.last_fetch_ms = max(self.last_fetch_ms, self.idle.last_ms)
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.idle.last_ms)
            self.idle = None


class Replica(Protocol):
    """The state that stays when a replica changes its role. `PartitionReplica` owns it, and roles change it."""

    config: ReplicationConfig
    leader_epoch: int
    partition_epoch: int
    log_end_offset: int
    high_watermark: int  # <= log_end_offset; grows within an epoch
    leader_epoch_start_offset: int  # while we lead
    isr: tuple[int, ...]  # committed; contains the leader while we lead
    replicas: tuple[int, ...]
    min_insync_replicas: int
    eligible_epochs: Mapping[int, int] | None  # None: not known yet; only the controller checks
    proposal_attempt: int  # number of the last one in any role; no number is used twice

    @property
    def effective_min_insync_replicas(self) -> int: ...


class ReplicaRole(Protocol):
    NAME: ClassVar[Role]

    followers: dict[int, FollowerState]  # empty unless it leads

    def left(self) -> list[Action]:
        """The role ends. No other method is called after this one."""
        return []

    def next_deadline_ms(self) -> int | None:
        return None

    def tick(self, now_ms: int) -> list[Action]:
        return []

    def brokers_changed(self, now_ms: int) -> list[Action]:
        return []

    # -- as leader ---------------------------------------------------------------------------------------------------

    def appended(self, event: Appended, now_ms: int) -> list[Action]:
        raise AssertionError("only a leader appends")

    def follower_fetched(self, event: FollowerFetched, now_ms: int) -> list[Action]:
        return []

    def follower_idles(self, event: FollowerIdles) -> list[Action]:
        return []

    def await_replication(self, event: AwaitReplication) -> list[Action]:
        return [CompleteProduce(token=event.token, error_code=ErrorCode.not_leader_or_follower)]

    def proposal_answered(self, event: IsrProposalAnswered, now_ms: int) -> list[Action]:
        return []

    # -- as follower -------------------------------------------------------------------------------------------------

    def fetched_from_leader(self, event: FetchedFromLeader) -> list[Action]:
        return []

    def truncated(self, event: Truncated) -> list[Action]:
        raise AssertionError("a leader never truncates")

    # -- invariants --------------------------------------------------------------------------------------------------

    def check_invariants(self) -> None:
        return
