"""One partition's replica on one broker: leader and follower role, ISR, high watermark, waiting acks=all produces.

Knows no log and no socket: it is told end offsets and answers with actions. Shown by tests/broker_replication.
The rules are Kafka's:
- HW = min log end offset over the *maximal* ISR (committed ISR plus members being added), so that a proposal in flight
  never lets the HW run ahead of a replica that the controller may already count in.
- A follower is caught up at the time of a fetch that asks from our end offset, or at the time of its previous fetch if
  this one reaches the end offset we had then. So an idle follower that has everything stays in the ISR.
- One that fetches by a session and has everything is not named by its fetches (KIP-227), yet each of them counts, as in
  Kafka: its times follow the session's, and are taken over when that ends, at the latest with the next append.
- While the *committed* ISR is below min.insync.replicas the HW does not move (KIP-966, Partition.isUnderMinIsr): a
  member that is only proposed may never be counted in, and the others could then lead without what was acknowledged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from kio.schema.errors import ErrorCode

from broker.replication.types import (
    Action,
    Appended,
    AwaitReplication,
    BecomeFollower,
    BecomeLeader,
    BrokersChanged,
    CompleteProduce,
    Event,
    FetchedFromLeader,
    FetchTimes,
    FollowerFetched,
    FollowerIdles,
    HighWatermarkAdvanced,
    IsrChanged,
    IsrProposalAnswered,
    ProposeIsr,
    StopReplica,
    Tick,
    Truncated,
)

UNKNOWN_OFFSET = -1
NO_LEADER = -1

# The proposal is void; the committed ISR stands and a later fetch or tick may propose anew.
_REVERTING_ERRORS = frozenset({ErrorCode.operation_not_attempted, ErrorCode.ineligible_replica})


class Role(Enum):
    LEADER = "leader"
    FOLLOWER = "follower"
    STOPPED = "stopped"


_LEADER = Role.LEADER  # looked up once: an enum's member costs 70 ns each time
_NONE = ErrorCode.none  # looked up once: an enum's member costs 70 ns each time


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationConfig:
    broker_id: int
    replica_lag_time_max_ms: int = 30_000  # replica.lag.time.max.ms
    proposal_retry_ms: int = 200  # between two AlterPartition of the same proposal


@dataclass(slots=True, kw_only=True)
class FollowerState:
    log_end_offset: int = UNKNOWN_OFFSET
    last_caught_up_ms: int = 0
    last_fetch_ms: int = 0
    leader_end_offset_at_last_fetch: int = UNKNOWN_OFFSET
    broker_epoch: int = -1
    idle: FetchTimes | None = None  # of its session, while it has everything: see FollowerIdles

    def end_idling(self) -> None:
        """What the fetches of the session until now say: they asked from our end offset, each of them."""
        if self.idle is not None:
            self.last_fetch_ms = max(self.last_fetch_ms, self.idle.last_ms)
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.idle.last_ms)
            self.idle = None


@dataclass(slots=True, kw_only=True)
class _Proposal:
    isr: tuple[int, ...]
    attempt: int  # which of our requests the controller may answer
    retry_at_ms: int | None  # None: on its way


class PartitionReplica:
    """`handle` is the only way to change it; the public attributes are for reading."""

    def __init__(self, *, config: ReplicationConfig, high_watermark: int, log_end_offset: int) -> None:
        self._config = config
        self.role = Role.STOPPED
        self.leader_id = NO_LEADER
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.log_end_offset = log_end_offset
        self.high_watermark = max(0, min(high_watermark, log_end_offset))  # <= log_end_offset; grows within an epoch
        self.leader_epoch_start_offset = UNKNOWN_OFFSET
        self.isr: tuple[int, ...] = ()  # committed; contains the leader while we lead
        self.replicas: tuple[int, ...] = ()
        self.min_insync_replicas = 1
        self.followers: dict[int, FollowerState] = {}
        self._eligible_epochs: Mapping[int, int] | None = None  # None: not told yet, the controller will judge
        self._proposal: _Proposal | None = None
        self._attempts = 0  # of proposals, in all our roles: no number is used twice
        # (token, required_offset, deadline_ms), required offsets ascending as appends are
        self._waiting: deque[AwaitReplication] = deque()
        self._earliest_wait_deadline_ms: int | None = None  # lower bound of the deadlines in _waiting

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self.role is _LEADER

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        if self._proposal is None:
            return self.isr
        return tuple(dict.fromkeys((*self.isr, *self._proposal.isr)))

    @property
    def effective_min_insync_replicas(self) -> int:
        return min(self.min_insync_replicas, max(1, len(self.replicas)))

    @property
    def is_proposal_in_flight(self) -> bool:
        return self._proposal is not None

    @property
    def proposal_attempt(self) -> int:
        """Of the proposal whose answer counts, or of the last one."""
        return self._attempts

    def check_append(self, *, acks: int) -> ErrorCode:
        """Asked before the append, which definitely has not happened if this is not `none`."""
        if self.role is not _LEADER:
            return ErrorCode.not_leader_or_follower
        if acks == -1 and len(self.isr) < self.effective_min_insync_replicas:
            return ErrorCode.not_enough_replicas
        return _NONE

    def is_replicated(self, required_offset: int) -> bool:
        """Whether an acks=all produce is done as soon as it is appended, as with one replica: who asks first saves
        itself the wait."""
        return (
            self.high_watermark >= required_offset
            and self.role is _LEADER
            and len(self.maximal_isr) >= self.effective_min_insync_replicas
        )

    def check_leader_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """KIP-320 fencing of Fetch, ListOffsets and OffsetForLeaderEpoch; -1 means that the peer did not say."""
        if current_leader_epoch >= 0 and current_leader_epoch < self.leader_epoch:
            return ErrorCode.fenced_leader_epoch
        if current_leader_epoch > self.leader_epoch:
            return ErrorCode.unknown_leader_epoch
        return ErrorCode.none

    def has_everything(self, replica_id: int) -> bool:
        """Whether this member of the ISR holds all that we do: nothing is to be told of it until the next append."""
        follower = self.followers.get(replica_id)
        return (
            self.role is _LEADER
            and follower is not None
            and follower.log_end_offset == self.log_end_offset
            and replica_id in self.isr
        )

    def next_deadline_ms(self) -> int | None:
        if self.role is not _LEADER:
            return None
        deadlines = [self._earliest_wait_deadline_ms] if self._earliest_wait_deadline_ms is not None else []
        if self._proposal is not None:
            if self._proposal.retry_at_ms is not None:
                deadlines.append(self._proposal.retry_at_ms)
        else:
            limit_ms = self._config.replica_lag_time_max_ms
            deadlines.extend(
                self.followers[replica].last_caught_up_ms + limit_ms + 1
                for replica in self.isr
                if replica != self._config.broker_id and self._is_behind(replica)
            )
        if self.high_watermark < self.log_end_offset:
            # One that is about to join holds the HW back until then.
            deadlines.extend(
                follower.last_caught_up_ms + self._config.replica_lag_time_max_ms + 1
                for replica, follower in self.followers.items()
                if replica not in self.isr and self._is_about_to_join(replica, follower, follower.last_caught_up_ms)
            )
        return min(deadlines, default=None)

    # -- the one door ------------------------------------------------------------------------------------------------

    def handle(self, event: Event, now_ms: int) -> list[Action]:
        match event:
            case FollowerFetched():
                return self._follower_fetched(event, now_ms)
            case FollowerIdles():
                return self._follower_idles(event)
            case Appended():
                return self._appended(event, now_ms)
            case AwaitReplication():
                return self._await_replication(event)
            case FetchedFromLeader():
                return self._fetched_from_leader(event)
            case Truncated():
                return self._truncated(event)
            case Tick():
                return self._tick(now_ms)
            case IsrProposalAnswered():
                return self._proposal_answered(event, now_ms)
            case BecomeLeader():
                return self._become_leader(event, now_ms)
            case BecomeFollower():
                return self._become_follower(event)
            case BrokersChanged():
                self._eligible_epochs = event.eligible_epochs
                return self._advance_high_watermark(now_ms)
            case StopReplica():
                return self._stop()

    # -- roles -------------------------------------------------------------------------------------------------------

    def _become_leader(self, event: BecomeLeader, now_ms: int) -> list[Action]:
        me = self._config.broker_id
        if event.leader_epoch < self.leader_epoch:
            return []  # an older image; ours is newer
        is_new = event.leader_epoch > self.leader_epoch or self.role is not _LEADER
        if not is_new and event.partition_epoch <= self.partition_epoch:
            self.min_insync_replicas = event.min_insync_replicas
            return self._advance_high_watermark(now_ms)
        actions: list[Action] = self._fail_waiting() if is_new else []
        old_isr = self.isr
        self.role, self.leader_id = Role.LEADER, me
        self.leader_epoch, self.partition_epoch = event.leader_epoch, event.partition_epoch
        self.isr, self.replicas = event.isr, event.replicas
        self.min_insync_replicas = event.min_insync_replicas
        self._proposal = None
        if is_new:
            self.log_end_offset = event.log_end_offset
            self.high_watermark = min(self.high_watermark, self.log_end_offset)
            self.leader_epoch_start_offset = event.log_end_offset
            self.followers = {}
        for follower in self.followers.values():
            follower.end_idling()
        for replica in event.replicas:
            if replica != me and replica not in self.followers:
                # A member of the ISR gets a full lag time to show itself; the others have nothing to lose.
                in_sync = replica in event.isr
                self.followers[replica] = FollowerState(last_caught_up_ms=now_ms if in_sync else 0)
        for replica in set(self.followers) - set(event.replicas):
            del self.followers[replica]
        if not is_new and set(old_isr) != set(self.isr):
            actions.append(IsrChanged(leader_epoch=self.leader_epoch, isr=self.isr))
        actions.extend(self._advance_high_watermark(now_ms))
        return actions

    def _become_follower(self, event: BecomeFollower) -> list[Action]:
        if event.leader_epoch < self.leader_epoch:
            return []
        actions = self._fail_waiting()
        self.role, self.leader_id = Role.FOLLOWER, event.leader_id
        self.leader_epoch, self.partition_epoch = event.leader_epoch, event.partition_epoch
        self.isr, self.replicas = event.isr, event.replicas
        self.log_end_offset = event.log_end_offset
        self.high_watermark = min(self.high_watermark, self.log_end_offset)
        self.leader_epoch_start_offset = UNKNOWN_OFFSET
        self.followers = {}
        self._proposal = None
        return actions

    def _stop(self) -> list[Action]:
        actions = self._fail_waiting()
        self.role, self.leader_id = Role.STOPPED, NO_LEADER
        self.followers = {}
        self._proposal = None
        return actions

    def _fail_waiting(self) -> list[Action]:
        failed: list[Action] = [
            CompleteProduce(token=wait.token, error_code=ErrorCode.not_leader_or_follower) for wait in self._waiting
        ]
        self._waiting.clear()
        self._earliest_wait_deadline_ms = None
        return failed

    # -- leader ------------------------------------------------------------------------------------------------------

    def _appended(self, event: Appended, now_ms: int) -> list[Action]:
        assert self.role is _LEADER, "only a leader appends"
        assert event.log_end_offset >= self.log_end_offset, "a leader's log never shrinks"
        self.log_end_offset = event.log_end_offset
        for follower in self.followers.values():
            if follower.idle is not None:
                follower.end_idling()
        if len(self.maximal_isr) == 1:
            return self._advance_high_watermark(now_ms)
        return []  # the slowest follower in the ISR holds it back anyway

    def _follower_fetched(self, event: FollowerFetched, now_ms: int) -> list[Action]:
        follower = self.followers.get(event.replica_id)
        if self.role is not _LEADER or follower is None:
            return []
        if follower.idle is not None:
            follower.end_idling()
        if event.fetch_offset >= self.log_end_offset:
            follower.last_caught_up_ms = max(follower.last_caught_up_ms, now_ms)
        elif event.fetch_offset >= follower.leader_end_offset_at_last_fetch != UNKNOWN_OFFSET:
            follower.last_caught_up_ms = max(follower.last_caught_up_ms, follower.last_fetch_ms)
        has_moved = follower.log_end_offset != event.fetch_offset
        follower.log_end_offset = event.fetch_offset
        follower.leader_end_offset_at_last_fetch = self.log_end_offset
        follower.last_fetch_ms = now_ms
        follower.broker_epoch = event.broker_epoch
        actions: list[Action] = []
        if event.replica_id not in self.isr:
            actions.extend(self._maybe_expand(event.replica_id))
        if has_moved:
            actions.extend(self._advance_high_watermark(now_ms))
        return actions

    def _follower_idles(self, event: FollowerIdles) -> list[Action]:
        follower = self.followers.get(event.replica_id)
        if self.role is not _LEADER or follower is None:
            return []
        follower.end_idling()
        if event.fetches is not None and self.has_everything(event.replica_id):
            follower.idle = event.fetches
        return []

    def _maybe_expand(self, replica_id: int) -> list[Action]:
        if self._proposal is not None or not self._is_eligible(replica_id):
            return []
        end_offset = self.followers[replica_id].log_end_offset
        if end_offset < self.high_watermark or end_offset < self.leader_epoch_start_offset:
            return []
        return [self._propose((*self.isr, replica_id))]

    def _is_eligible(self, replica: int) -> bool:
        """Not fenced, and of the incarnation that fetched from us, as the controller checks (KIP-841, KIP-903)."""
        if self._eligible_epochs is None:
            return True
        broker_epoch = self.followers[replica].broker_epoch
        return replica in self._eligible_epochs and broker_epoch in (-1, self._eligible_epochs[replica])

    def _maybe_shrink(self, now_ms: int) -> list[Action]:
        if self._proposal is not None:
            return []
        limit_ms = self._config.replica_lag_time_max_ms
        late = {
            replica
            for replica in self.isr
            if replica != self._config.broker_id
            and self._is_behind(replica)
            and now_ms - self.followers[replica].last_caught_up_ms > limit_ms
        }
        if not late:
            return []
        return [self._propose(tuple(replica for replica in self.isr if replica not in late))]

    def _is_behind(self, replica: int) -> bool:
        return self.followers[replica].log_end_offset != self.log_end_offset

    def _propose(self, isr: tuple[int, ...]) -> ProposeIsr:
        assert self._config.broker_id in isr, "the leader never leaves its own ISR"
        self._attempts += 1
        self._proposal = _Proposal(isr=isr, attempt=self._attempts, retry_at_ms=None)
        return ProposeIsr(
            attempt=self._attempts,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            isr=isr,
            broker_epochs=tuple(self.followers[r].broker_epoch if r in self.followers else -1 for r in isr),
        )

    def _proposal_answered(self, event: IsrProposalAnswered, now_ms: int) -> list[Action]:
        if self.role is not _LEADER or self._proposal is None:
            return []
        if event.error_code == ErrorCode.none:
            if event.leader_epoch != self.leader_epoch or event.partition_epoch <= self.partition_epoch:
                return []  # an answer to something older; the image has told us more already
            self.isr, self.partition_epoch, self._proposal = event.isr, event.partition_epoch, None
            for replica, follower in self.followers.items():
                if replica not in self.isr:
                    follower.end_idling()  # its next fetch may bring it in again
            changed = IsrChanged(leader_epoch=self.leader_epoch, isr=self.isr)
            return [changed, *self._advance_high_watermark(now_ms)]
        if event.attempt != self._proposal.attempt:
            # Of an earlier proposal, which a newer image had ended already. The later one is on its way, and the
            # controller may count its new member in: without it in the maximal ISR the HW would run ahead of it.
            return []
        if event.error_code in _REVERTING_ERRORS:
            self._proposal = None
            return []
        # Lost answer, no controller, or a state that the image will correct: unknown whether it took effect, so the
        # maximal ISR stays until an answer or a newer image comes.
        self._proposal.retry_at_ms = now_ms + self._config.proposal_retry_ms
        return []

    def _advance_high_watermark(self, now_ms: int) -> list[Action]:
        if self.role is not _LEADER or len(self.isr) < self.effective_min_insync_replicas:
            return []
        maximal = self.maximal_isr
        lowest = self.log_end_offset
        for replica, follower in self.followers.items():
            counts = replica in maximal or self._is_about_to_join(replica, follower, now_ms)
            if counts and follower.log_end_offset < lowest:
                lowest = follower.log_end_offset
        if lowest <= self.high_watermark:
            return []
        self.high_watermark = lowest
        return [HighWatermarkAdvanced(high_watermark=lowest), *self._complete_waiting()]

    def _is_about_to_join(self, replica: int, follower: FollowerState, now_ms: int) -> bool:
        """A replica that keeps up but is not in the ISR yet holds the HW back, or it could chase it for ever.

        Only while it may join: one that was just fenced kept up until a moment ago and would block for long.
        """
        return (
            self._is_eligible(replica)
            and follower.log_end_offset >= max(self.high_watermark, self.leader_epoch_start_offset)
            and follower.last_caught_up_ms > 0
            and now_ms - follower.last_caught_up_ms <= self._config.replica_lag_time_max_ms
        )

    # -- waiting produces --------------------------------------------------------------------------------------------

    def _await_replication(self, event: AwaitReplication) -> list[Action]:
        if self.role is not _LEADER:
            return [CompleteProduce(token=event.token, error_code=ErrorCode.not_leader_or_follower)]
        if self.high_watermark >= event.required_offset:
            return [CompleteProduce(token=event.token, error_code=self._error_after_append())]
        if self._waiting and self._waiting[-1].required_offset > event.required_offset:
            # A replayed batch whose first copy is not committed yet: keep the order of required offsets.
            self._waiting = deque(sorted((*self._waiting, event), key=lambda wait: wait.required_offset))
        else:
            self._waiting.append(event)
        earliest = self._earliest_wait_deadline_ms
        self._earliest_wait_deadline_ms = event.deadline_ms if earliest is None else min(earliest, event.deadline_ms)
        return []

    def _error_after_append(self) -> ErrorCode:
        if len(self.maximal_isr) < self.effective_min_insync_replicas:
            return ErrorCode.not_enough_replicas_after_append
        return _NONE

    def _complete_waiting(self) -> list[Action]:
        completed: list[Action] = []
        while self._waiting and self._waiting[0].required_offset <= self.high_watermark:
            token = self._waiting.popleft().token
            completed.append(CompleteProduce(token=token, error_code=self._error_after_append()))
        if not self._waiting:
            self._earliest_wait_deadline_ms = None
        return completed

    def _expire_waiting(self, now_ms: int) -> list[Action]:
        earliest = self._earliest_wait_deadline_ms
        if earliest is None or now_ms < earliest:
            return []
        expired = [wait for wait in self._waiting if wait.deadline_ms <= now_ms]
        self._waiting = deque(wait for wait in self._waiting if wait.deadline_ms > now_ms)
        self._earliest_wait_deadline_ms = min((wait.deadline_ms for wait in self._waiting), default=None)
        under_min = len(self.maximal_isr) < self.effective_min_insync_replicas
        error = ErrorCode.not_enough_replicas_after_append if under_min else ErrorCode.request_timed_out
        return [CompleteProduce(token=wait.token, error_code=error) for wait in expired]

    def _tick(self, now_ms: int) -> list[Action]:
        if self.role is not _LEADER:
            return []
        actions = self._expire_waiting(now_ms)
        proposal = self._proposal
        if proposal is not None and proposal.retry_at_ms is not None and now_ms >= proposal.retry_at_ms:
            actions.append(self._propose(proposal.isr))
        actions.extend(self._maybe_shrink(now_ms))
        actions.extend(self._advance_high_watermark(now_ms))  # a replica that was about to join may have given up
        return actions

    # -- follower ----------------------------------------------------------------------------------------------------

    def _fetched_from_leader(self, event: FetchedFromLeader) -> list[Action]:
        if self.role is not Role.FOLLOWER or event.leader_epoch != self.leader_epoch:
            return []
        assert event.log_end_offset >= self.log_end_offset, "a follower's log shrinks by Truncated only"
        self.log_end_offset = event.log_end_offset
        reached = min(event.leader_high_watermark, self.log_end_offset)
        if reached <= self.high_watermark:
            return []
        self.high_watermark = reached
        return [HighWatermarkAdvanced(high_watermark=reached)]

    def _truncated(self, event: Truncated) -> list[Action]:
        assert self.role is not _LEADER, "a leader never truncates"
        self.log_end_offset = event.log_end_offset
        self.high_watermark = min(self.high_watermark, self.log_end_offset)
        return []

    # -- invariants --------------------------------------------------------------------------------------------------

    def check_invariants(self) -> None:
        assert 0 <= self.high_watermark <= self.log_end_offset, "0 <= HW <= LEO"
        if self.role is not _LEADER:
            assert not self._waiting, "only a leader keeps produces waiting"
            assert self._proposal is None, "only a leader proposes an ISR"
            return
        assert self._config.broker_id in self.isr, "the leader is in its ISR"
        for replica, follower in self.followers.items():
            assert follower.idle is None or self.has_everything(replica), "who idles has everything"
        assert set(self.maximal_isr) <= set(self.replicas), "the ISR is a subset of the replicas"
        assert _is_ascending(wait.required_offset for wait in self._waiting), "waiting produces are in offset order"
        assert all(wait.required_offset > self.high_watermark for wait in self._waiting), "none waits in vain"
        if self._waiting:
            assert self._earliest_wait_deadline_ms is not None, "a waiting produce has a deadline"


def _is_ascending(values: Iterable[int]) -> bool:
    previous = -1
    for value in values:
        if value < previous:
            return False
        previous = value
    return True
