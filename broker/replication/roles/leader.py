"""The replica that leads a leader epoch. It decides who is in the ISR, what is committed, and which produces are done.

- The high watermark (HW) is the smallest log end offset over the *maximal* ISR (committed ISR plus members being
  added). While a proposal is in flight, the controller may already count a proposed member. The HW never passes the log
  end offset of such a member.
- If a fetch asks from our log end offset, the follower is caught up at the time of this fetch. If it asks from the log
  end offset that we had at its previous fetch, it was caught up at the time of that previous fetch. So an idle follower
  that has everything stays in the ISR.
- A follower that has everything may fetch in a session, and its fetches then do not name the partition (KIP-227). Each
  fetch still counts, as in Kafka. Meanwhile the session keeps the times of these fetches. The leader takes them over
  when this ends, at the latest with the next append.
- While the *committed* ISR is smaller than min.insync.replicas, the HW does not move (KIP-966,
  Partition.isUnderMinIsr). It can happen that the controller never adds a proposed member. If that member counted, one
  of the other replicas could later lead without an acknowledged record.
"""

from __future__ import annotations

from typing import ClassVar

from kio.schema.errors import ErrorCode

from broker.replication.isr import IsrProposal
from broker.replication.roles.role import UNKNOWN_OFFSET, FollowerState, Replica, ReplicaRole
from broker.replication.transitions import Role
from broker.replication.types import (
    Action,
    Appended,
    AwaitReplication,
    BecomeLeader,
    CompleteProduce,
    FollowerFetched,
    FollowerIdles,
    HighWatermarkAdvanced,
    IsrChanged,
    IsrProposalAnswered,
    ProposeIsr,
)
from broker.replication.waiting import WaitingProduces

_NONE = ErrorCode.none  # Looked up once, because each access to an enum's member costs 70 ns.


class Leader(ReplicaRole):
    """It appends, counts the fetches of its followers, moves the high watermark, and proposes who is in the ISR."""

    NAME: ClassVar = Role.LEADER

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._config = replica.config
        self.followers: dict[int, FollowerState] = {}
        self.proposal = IsrProposal()
        self._waiting = WaitingProduces()

    def entered(self, now_ms: int) -> list[Action]:
        self._follow_replicas(now_ms)
        return self.advance_high_watermark(now_ms)

    def left(self) -> list[Action]:
        return self._waiting.fail(ErrorCode.not_leader_or_follower)

    def release_waiting(self) -> WaitingProduces:
        """Hand over the waiting produces. This broker answers them in its next leader epoch."""
        waiting, self._waiting = self._waiting, WaitingProduces()
        return waiting

    def wait_on(self, waiting: WaitingProduces) -> None:
        self._waiting = waiting

    # -- the image ---------------------------------------------------------------------------------------------------

    def image_changed(self, event: BecomeLeader, now_ms: int) -> list[Action]:
        """The ISR, the replicas or the settings changed within the leader epoch."""
        replica = self._replica
        replica.min_insync_replicas = event.min_insync_replicas
        if event.partition_epoch <= replica.partition_epoch:
            return self.advance_high_watermark(now_ms)
        old_isr = replica.isr
        replica.partition_epoch, replica.isr, replica.replicas = event.partition_epoch, event.isr, event.replicas
        self.proposal.overtaken()
        for follower in self.followers.values():
            follower.end_idling()
        self._follow_replicas(now_ms)
        actions: list[Action] = []
        if set(old_isr) != set(replica.isr):
            actions.append(IsrChanged(leader_epoch=replica.leader_epoch, isr=replica.isr))
        actions.extend(self.advance_high_watermark(now_ms))
        return actions

    def _follow_replicas(self, now_ms: int) -> None:
        me, replicas = self._config.broker_id, self._replica.replicas
        for replica in replicas:
            if replica != me and replica not in self.followers:
                # A member of the ISR gets the full replica.lag.time.max.ms to show that it is alive. For the others the
                # time does not matter.
                in_sync = replica in self._replica.isr
                self.followers[replica] = FollowerState(last_caught_up_ms=now_ms if in_sync else 0)
        for replica in set(self.followers) - set(replicas):
            del self.followers[replica]

    def brokers_changed(self, now_ms: int) -> list[Action]:
        return self.advance_high_watermark(now_ms)

    # -- what the log and the followers do ---------------------------------------------------------------------------

    def appended(self, event: Appended, now_ms: int) -> list[Action]:
        replica = self._replica
        assert event.log_end_offset >= replica.log_end_offset, "a leader's log never shrinks"
        replica.log_end_offset = event.log_end_offset
        for follower in self.followers.values():
            if follower.idle is not None:
                follower.end_idling()
        if len(self.maximal_isr()) == 1:
            return self.advance_high_watermark(now_ms)
        return []  # the slowest follower in the ISR holds the HW back anyway

    def follower_fetched(self, event: FollowerFetched, now_ms: int) -> list[Action]:
        follower = self.followers.get(event.replica_id)
        if follower is None:
            return []
        if follower.idle is not None:
            follower.end_idling()
        log_end_offset = self._replica.log_end_offset
        if event.fetch_offset >= log_end_offset:
            follower.last_caught_up_ms = max(follower.last_caught_up_ms, now_ms)
        elif event.fetch_offset >= follower.leader_end_offset_at_last_fetch != UNKNOWN_OFFSET:
            follower.last_caught_up_ms = max(follower.last_caught_up_ms, follower.last_fetch_ms)
        has_moved = follower.log_end_offset != event.fetch_offset
        follower.log_end_offset = event.fetch_offset
        follower.leader_end_offset_at_last_fetch = log_end_offset
        follower.last_fetch_ms = now_ms
        follower.broker_epoch = event.broker_epoch
        actions: list[Action] = []
        if event.replica_id not in self._replica.isr:
            actions.extend(self._maybe_expand(event.replica_id))
        if has_moved:
            actions.extend(self.advance_high_watermark(now_ms))
        return actions

    def follower_idles(self, event: FollowerIdles) -> list[Action]:
        follower = self.followers.get(event.replica_id)
        if follower is None:
            return []
        follower.end_idling()
        if event.fetches is not None and self.has_everything(event.replica_id):
            follower.idle = event.fetches
        return []

    def has_everything(self, replica_id: int) -> bool:
        follower = self.followers.get(replica_id)
        return (
            follower is not None
            and follower.log_end_offset == self._replica.log_end_offset
            and replica_id in self._replica.isr
        )

    # -- ISR ---------------------------------------------------------------------------------------------------------

    def maximal_isr(self) -> tuple[int, ...]:
        proposed = self.proposal.isr
        return tuple(dict.fromkeys((*self._replica.isr, *proposed))) if proposed else self._replica.isr

    def _maybe_expand(self, replica_id: int) -> list[Action]:
        if self.proposal.is_open or not self._is_eligible(replica_id):
            return []
        end_offset = self.followers[replica_id].log_end_offset
        if end_offset < self._replica.high_watermark or end_offset < self._replica.leader_epoch_start_offset:
            return []
        return [self._propose((*self._replica.isr, replica_id))]

    def _is_eligible(self, replica: int) -> bool:
        """Whether this broker is not fenced, and is still the incarnation that fetched from us. The controller checks
        the same (KIP-841, KIP-903)."""
        eligible_epochs = self._replica.eligible_epochs
        if eligible_epochs is None:
            return True
        broker_epoch = self.followers[replica].broker_epoch
        return replica in eligible_epochs and broker_epoch in (-1, eligible_epochs[replica])

    def _maybe_shrink(self, now_ms: int) -> list[Action]:
        if self.proposal.is_open:
            return []
        limit_ms = self._config.replica_lag_time_max_ms
        late = {
            replica
            for replica in self._followers_in_isr()
            if self._is_behind(replica) and now_ms - self.followers[replica].last_caught_up_ms > limit_ms
        }
        if not late:
            return []
        return [self._propose(tuple(replica for replica in self._replica.isr if replica not in late))]

    def _followers_in_isr(self) -> list[int]:
        return [replica for replica in self._replica.isr if replica != self._config.broker_id]

    def _is_behind(self, replica: int) -> bool:
        return self.followers[replica].log_end_offset != self._replica.log_end_offset

    def _propose(self, isr: tuple[int, ...]) -> ProposeIsr:
        replica = self._replica
        assert self._config.broker_id in isr, "the leader never leaves its own ISR"
        replica.proposal_attempt += 1
        self.proposal.propose(isr, attempt=replica.proposal_attempt)
        return ProposeIsr(
            attempt=replica.proposal_attempt,
            leader_epoch=replica.leader_epoch,
            partition_epoch=replica.partition_epoch,
            isr=isr,
            broker_epochs=tuple(self.followers[r].broker_epoch if r in self.followers else -1 for r in isr),
        )

    def proposal_answered(self, event: IsrProposalAnswered, now_ms: int) -> list[Action]:
        if self.proposal.is_answered_by(event.attempt):
            self.proposal.answered(event.error_code, retry_at_ms=now_ms + self._config.proposal_retry_ms)
        return []  # the committed ISR changes only with the image

    # -- high watermark ----------------------------------------------------------------------------------------------

    def advance_high_watermark(self, now_ms: int) -> list[Action]:
        replica = self._replica
        if len(replica.isr) < replica.effective_min_insync_replicas:
            return []
        maximal = self.maximal_isr()
        lowest = replica.log_end_offset
        for replica_id, follower in self.followers.items():
            counts = replica_id in maximal or self._is_about_to_join(replica_id, follower, now_ms)
            if counts and follower.log_end_offset < lowest:
                lowest = follower.log_end_offset
        if lowest <= replica.high_watermark:
            return []
        replica.high_watermark = lowest
        return [HighWatermarkAdvanced(high_watermark=lowest), *self.complete_waiting()]

    def _is_about_to_join(self, replica: int, follower: FollowerState, now_ms: int) -> bool:
        """A replica that keeps up but is not in the ISR yet holds the HW back. Otherwise it might never catch up with
        the HW.

        It does so only while it may join. A replica that was fenced a moment ago has kept up until now. If it counted,
        it would block the HW for replica.lag.time.max.ms.
        """
        return (
            self._is_eligible(replica)
            and follower.log_end_offset >= max(self._replica.high_watermark, self._replica.leader_epoch_start_offset)
            and follower.last_caught_up_ms > 0
            and now_ms - follower.last_caught_up_ms <= self._config.replica_lag_time_max_ms
        )

    # -- waiting produces --------------------------------------------------------------------------------------------

    def await_replication(self, event: AwaitReplication) -> list[Action]:
        if self._replica.high_watermark >= event.required_offset:
            return [CompleteProduce(token=event.token, error_code=self._error_after_append(_NONE))]
        self._waiting.add(event)
        return []

    def complete_waiting(self) -> list[Action]:
        if self._waiting.is_empty:
            return []
        return self._waiting.complete(self._replica.high_watermark, self._error_after_append(_NONE))

    def _error_after_append(self, otherwise: ErrorCode) -> ErrorCode:
        if len(self.maximal_isr()) < self._replica.effective_min_insync_replicas:
            return ErrorCode.not_enough_replicas_after_append
        return otherwise

    # -- time --------------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> list[Action]:
        actions = self._waiting.expire(now_ms, self._error_after_append(ErrorCode.request_timed_out))
        proposal = self.proposal
        if proposal.retry_at_ms is not None and now_ms >= proposal.retry_at_ms:
            actions.append(self._propose(proposal.isr))
        actions.extend(self._maybe_shrink(now_ms))
        actions.extend(self.advance_high_watermark(now_ms))  # a replica that was about to join may have fallen behind
        return actions

    def next_deadline_ms(self) -> int | None:
        waiting_ms = self._waiting.earliest_deadline_ms
        deadlines = [waiting_ms] if waiting_ms is not None else []
        lag_ms = self._config.replica_lag_time_max_ms + 1
        if self.proposal.is_open:
            if self.proposal.retry_at_ms is not None:
                deadlines.append(self.proposal.retry_at_ms)
        else:
            deadlines.extend(
                self.followers[replica].last_caught_up_ms + lag_ms
                for replica in self._followers_in_isr()
                if self._is_behind(replica)
            )
        if self._replica.high_watermark < self._replica.log_end_offset:
            # Until these deadlines a replica that is about to join holds the HW back.
            deadlines.extend(
                follower.last_caught_up_ms + lag_ms
                for replica, follower in self.followers.items()
                if replica not in self._replica.isr
                and self._is_about_to_join(replica, follower, follower.last_caught_up_ms)
            )
        return min(deadlines, default=None)

    # -- invariants --------------------------------------------------------------------------------------------------

    def check_invariants(self) -> None:
        replica = self._replica
        assert self._config.broker_id in replica.isr, "the leader is in its ISR"
        for replica_id, follower in self.followers.items():
            assert follower.idle is None or self.has_everything(replica_id), "who idles has everything"
        assert set(self.maximal_isr()) <= set(replica.replicas), "the ISR is a subset of the replicas"
        self.proposal.check_invariants()
        self._waiting.check_invariants(replica.high_watermark)
