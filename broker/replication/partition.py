"""One partition's replica on one broker: the only entry for events, and the change of roles.

It knows no log and no socket. Events tell it end offsets, and it returns actions. `broker.replication.roles` says what
a role does, `broker.replication.transitions` says which role may follow which. Shown by tests/broker_replication.
"""

from __future__ import annotations

from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from broker.replication.roles import (
    UNKNOWN_OFFSET,
    Follower,
    FollowerState,
    Leader,
    ReplicaRole,
    ReplicationConfig,
    Stopped,
)
from broker.replication.transitions import TRANSITIONS, Role, Trigger
from broker.replication.types import (
    Action,
    Appended,
    AwaitReplication,
    BecomeFollower,
    BecomeLeader,
    BrokersChanged,
    Event,
    FetchedFromLeader,
    FollowerFetched,
    FollowerIdles,
    IsrProposalAnswered,
    StopReplica,
    Tick,
    Truncated,
)

NO_LEADER = -1

_CLASSES: dict[Role, type[Stopped | Follower | Leader]] = {
    Role.STOPPED: Stopped,
    Role.FOLLOWER: Follower,
    Role.LEADER: Leader,
}
_NONE = ErrorCode.none  # looked up once, because each access to an enum's member costs 70 ns


class PartitionReplica:
    """It changes only through `handle`. The public attributes are for reading. `roles.Replica` explains them."""

    def __init__(self, *, config: ReplicationConfig, high_watermark: int, log_end_offset: int) -> None:
        self.config = config
        self.leader_id = NO_LEADER
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.log_end_offset = log_end_offset
        self.high_watermark = max(0, min(high_watermark, log_end_offset))
        self.leader_epoch_start_offset = UNKNOWN_OFFSET
        self.isr: tuple[int, ...] = ()
        self.replicas: tuple[int, ...] = ()
        self.min_insync_replicas = 1
        self.eligible_epochs: Mapping[int, int] | None = None
        self.proposal_attempt = 0
        self._take(Stopped(self))

    def _take(self, role: ReplicaRole) -> None:
        self._role = role
        self.role = role.NAME
        self.is_leader = role.NAME is Role.LEADER
        self.followers: dict[int, FollowerState] = role.followers

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The committed ISR. While we lead, also the replicas that the controller may have added to it already."""
        role = self._role
        return role.maximal_isr() if isinstance(role, Leader) else self.isr

    @property
    def awaits_agreed_isr(self) -> bool:
        """Whether the controller has agreed to an ISR that this leader has not read in the metadata log yet."""
        role = self._role
        return isinstance(role, Leader) and role.proposal.is_agreed

    @property
    def effective_min_insync_replicas(self) -> int:
        return min(self.min_insync_replicas, max(1, len(self.replicas)))

    def check_append(self, *, acks: int) -> ErrorCode:
        """Call this before an append. If the result is not `none`, nothing is appended."""
        if not self.is_leader:
            return ErrorCode.not_leader_or_follower
        if acks == -1 and len(self.isr) < self.effective_min_insync_replicas:
            return ErrorCode.not_enough_replicas
        return _NONE

    def is_replicated(self, required_offset: int) -> bool:
        """Whether an acks=all produce is complete already after the append, for example with one replica. The caller
        then does not have to wait."""
        return (
            self.high_watermark >= required_offset
            and self.is_leader
            and len(self.maximal_isr) >= self.effective_min_insync_replicas
        )

    def check_leader_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """KIP-320 fencing of Fetch, ListOffsets and OffsetForLeaderEpoch. -1: the peer did not name an epoch."""
        if current_leader_epoch >= 0 and current_leader_epoch < self.leader_epoch:
            return ErrorCode.fenced_leader_epoch
        if current_leader_epoch > self.leader_epoch:
            return ErrorCode.unknown_leader_epoch
        return ErrorCode.none

    def has_everything(self, replica_id: int) -> bool:
        """Whether this member of the ISR has all our records. Then there is nothing to send to it until the next
        append."""
        role = self._role
        return isinstance(role, Leader) and role.has_everything(replica_id)

    def next_deadline_ms(self) -> int | None:
        return self._role.next_deadline_ms()

    # -- the one door ------------------------------------------------------------------------------------------------

    def handle(self, event: Event, now_ms: int) -> list[Action]:
        match event:
            case FollowerFetched():
                return self._role.follower_fetched(event, now_ms)
            case FollowerIdles():
                return self._role.follower_idles(event)
            case Appended():
                return self._role.appended(event, now_ms)
            case AwaitReplication():
                return self._role.await_replication(event)
            case FetchedFromLeader():
                return self._role.fetched_from_leader(event)
            case Truncated():
                return self._role.truncated(event)
            case Tick():
                return self._role.tick(now_ms)
            case IsrProposalAnswered():
                return self._role.proposal_answered(event, now_ms)
            case BecomeLeader():
                return self._become_leader(event, now_ms)
            case BecomeFollower():
                return self._become_follower(event)
            case BrokersChanged():
                self.eligible_epochs = event.eligible_epochs
                return self._role.brokers_changed(now_ms)
            case StopReplica():
                return self._stop()

    # -- roles -------------------------------------------------------------------------------------------------------

    def _enter(self, trigger: Trigger) -> list[Action]:
        """The only place where the role changes. The caller then lets the new role handle the event."""
        name = TRANSITIONS.get((self.role, trigger))
        assert name is not None, f"no row for a replica that is {self.role.value}: {trigger.value}"
        actions = self._role.left()
        self._take(_CLASSES[name](self))
        return actions

    def _become_leader(self, event: BecomeLeader, now_ms: int) -> list[Action]:
        if event.leader_epoch < self.leader_epoch:
            return []  # we have a newer image already
        if isinstance(self._role, Leader) and event.leader_epoch == self.leader_epoch:
            return self._role.image_changed(event, now_ms)
        self.leader_id = self.config.broker_id
        self.leader_epoch, self.partition_epoch = event.leader_epoch, event.partition_epoch
        self.isr, self.replicas = event.isr, event.replicas
        self.min_insync_replicas = event.min_insync_replicas
        self.log_end_offset = self.leader_epoch_start_offset = event.log_end_offset
        self.high_watermark = min(self.high_watermark, self.log_end_offset)
        # This leader was elected again, or a replica was removed (KIP-455). Our log continues, so the produces that
        # wait for its records continue to wait.
        waiting = self._role.release_waiting() if isinstance(self._role, Leader) else None
        actions = self._enter(Trigger.LEADS_AGAIN if self.is_leader else Trigger.LEADS)
        assert isinstance(self._role, Leader)
        if waiting is not None:
            self._role.wait_on(waiting)
        return [*actions, *self._role.entered(now_ms)]

    def _become_follower(self, event: BecomeFollower) -> list[Action]:
        if event.leader_epoch < self.leader_epoch:
            return []
        self.leader_id = event.leader_id
        self.leader_epoch, self.partition_epoch = event.leader_epoch, event.partition_epoch
        self.isr, self.replicas = event.isr, event.replicas
        self.log_end_offset = event.log_end_offset
        self.high_watermark = min(self.high_watermark, self.log_end_offset)
        self.leader_epoch_start_offset = UNKNOWN_OFFSET
        return self._enter(Trigger.FOLLOWS)

    def _stop(self) -> list[Action]:
        if self.role is Role.STOPPED:
            return []
        self.leader_id = NO_LEADER
        return self._enter(Trigger.STOPS)

    # -- invariants --------------------------------------------------------------------------------------------------

    def check_invariants(self) -> None:
        assert 0 <= self.high_watermark <= self.log_end_offset, "0 <= HW <= LEO"
        assert self.is_leader or not self.followers, "only a leader has followers"
        self._role.check_invariants()
