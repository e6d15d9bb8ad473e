"""A small cluster of three cores with logs in lists: what was acknowledged survives every election within the ISR.

The model's controller is a variable; AlterPartition requests and answers may be delayed or lost, followers may stall,
brokers may crash and come back with the image of any later time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from broker.replication import (
    Action,
    Appended,
    AwaitReplication,
    BecomeFollower,
    BecomeLeader,
    CompleteProduce,
    EpochEnd,
    Event,
    FetchedFromLeader,
    FetchTimes,
    FollowerFetched,
    FollowerIdles,
    IsrProposalAnswered,
    PartitionReplica,
    ProposeIsr,
    ReplicationConfig,
    Tick,
    Truncated,
    diverging_epoch,
    truncation_offset,
)
from tests.amount import examples

BROKERS = (1, 2, 3)
LAG_MS = 50


def lookup_in(log: list[tuple[int, int]], own_epoch: int, epoch: int) -> EpochEnd | None:
    """OffsetForLeaderEpoch over a list of (epoch, value)."""
    if epoch >= own_epoch:
        return EpochEnd(epoch=own_epoch, end_offset=len(log))
    known = [e for e, _ in log if e <= epoch]
    if not known:  # older than all there is: its records, if any, ended before the first, as LeaderEpochCache says
        return EpochEnd(epoch=epoch, end_offset=0) if log else None
    return EpochEnd(epoch=known[-1], end_offset=len(known))


@dataclass
class Cluster:
    now_ms: int = 1
    leader: int = 1
    leader_epoch: int = 0
    partition_epoch: int = 0
    isr: tuple[int, ...] = BROKERS
    logs: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: {b: [] for b in BROKERS})
    replicas: dict[int, PartitionReplica] = field(default_factory=dict)
    in_flight: list[tuple[int, ProposeIsr]] = field(default_factory=list)
    answers: list[tuple[int, IsrProposalAnswered]] = field(default_factory=list)
    sent: dict[int, int] = field(default_factory=dict)  # token -> value
    acked: set[int] = field(default_factory=set)
    next_value: int = 0
    highest: dict[tuple[int, int], int] = field(default_factory=dict)  # (broker, epoch) -> HW seen

    def start(self) -> None:
        for broker in BROKERS:
            config = ReplicationConfig(broker_id=broker, replica_lag_time_max_ms=LAG_MS)
            self.replicas[broker] = PartitionReplica(config=config, high_watermark=0, log_end_offset=0)
            self.publish(broker)

    def publish(self, broker: int) -> None:
        end = len(self.logs[broker])
        if broker == self.leader:
            lead = BecomeLeader(
                leader_epoch=self.leader_epoch,
                partition_epoch=self.partition_epoch,
                isr=self.isr,
                replicas=BROKERS,
                log_end_offset=end,
                min_insync_replicas=2,
            )
            self.perform(broker, lead)
            return
        follow = BecomeFollower(
            leader_id=self.leader,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            isr=self.isr,
            replicas=BROKERS,
            log_end_offset=end,
        )
        self.perform(broker, follow)

    def perform(self, broker: int, event: Event) -> None:
        replica = self.replicas[broker]
        epoch_before, high_watermark_before = replica.leader_epoch, replica.high_watermark
        actions: list[Action] = replica.handle(event, self.now_ms)
        replica.check_invariants()
        if replica.leader_epoch == epoch_before and not isinstance(event, Truncated):
            assert replica.high_watermark >= high_watermark_before, "HW never falls within an epoch"
        for action in actions:
            if isinstance(action, ProposeIsr):
                self.in_flight.append((broker, action))
            elif isinstance(action, CompleteProduce) and action.error_code is ErrorCode.none:
                self.acked.add(self.sent[action.token])
                assert len(replica.isr) >= 2, "nothing is committed while the committed ISR is below the minimum"

    def produce(self, broker: int) -> None:
        replica = self.replicas[broker]
        if replica.check_append(acks=-1) is not ErrorCode.none:
            return
        value = self.next_value = self.next_value + 1
        self.logs[broker].append((replica.leader_epoch, value))
        end = len(self.logs[broker])
        self.sent[value] = value
        self.perform(broker, Appended(log_end_offset=end))
        self.perform(broker, AwaitReplication(token=value, required_offset=end, deadline_ms=self.now_ms + 400))

    def fetch(self, follower: int, limit: int) -> None:
        me = self.replicas[follower]
        if me.is_leader or me.leader_id == follower:
            return
        leader = self.replicas[me.leader_id]
        if not leader.is_leader or leader.leader_epoch != me.leader_epoch:
            return
        mine, theirs = self.logs[follower], self.logs[me.leader_id]
        last_epoch = mine[-1][0] if mine else -1
        diverging = diverging_epoch(
            lookup=lambda e: lookup_in(theirs, leader.leader_epoch, e),
            last_fetched_epoch=last_epoch,
            fetch_offset=len(mine),
            log_start_offset=0,
        )
        if diverging is not None:
            end = truncation_offset(
                lookup=lambda e: lookup_in(mine, last_epoch, e),
                diverging=diverging,
                log_end_offset=len(mine),
                high_watermark=me.high_watermark,
            )
            assert end < len(mine), "every round of truncation makes progress"
            del mine[end:]
            self.perform(follower, Truncated(log_end_offset=end))
            return
        self.perform(me.leader_id, FollowerFetched(replica_id=follower, fetch_offset=len(mine)))
        high_watermark = leader.high_watermark
        mine.extend(theirs[len(mine) : len(mine) + limit])
        response = FetchedFromLeader(
            leader_epoch=leader.leader_epoch, leader_high_watermark=high_watermark, log_end_offset=len(mine)
        )
        self.perform(follower, response)

    def deliver_proposal(self, *, is_answer_lost: bool, is_refused: bool) -> None:
        """The controller decides on the oldest proposal on its way; its answer may come later (`answer`)."""
        if not self.in_flight:
            return
        broker, proposal = self.in_flight.pop(0)
        current = proposal.leader_epoch == self.leader_epoch and proposal.partition_epoch == self.partition_epoch
        error = ErrorCode.none if current else ErrorCode.invalid_update_version
        if is_refused:  # a member is fenced, or the controller has not come to it
            error = ErrorCode.ineligible_replica
        elif current:
            self.isr = proposal.isr
            self.partition_epoch += 1
        if is_answer_lost:
            error = ErrorCode.network_exception
        self.answers.append((broker, IsrProposalAnswered(attempt=proposal.attempt, error_code=int(error))))

    def answer(self) -> None:
        if self.answers:
            self.perform(*self.answers.pop(0))

    def elect(self, choice: int) -> None:
        self.leader = self.isr[choice % len(self.isr)]
        self.leader_epoch += 1
        self.partition_epoch += 1
        self.publish(self.leader)
        values = {value for _, value in self.logs[self.leader]}
        assert self.acked <= values, f"lost {self.acked - values} at the election of {self.leader}"


STEP = st.one_of(
    st.tuples(st.just("produce"), st.sampled_from(BROKERS), st.just(0)),
    st.tuples(st.just("fetch"), st.sampled_from(BROKERS), st.integers(0, 3)),
    st.tuples(st.just("fetch"), st.sampled_from(BROKERS), st.integers(0, 3)),
    st.tuples(st.just("publish"), st.sampled_from(BROKERS), st.just(0)),
    st.tuples(st.just("time"), st.sampled_from(BROKERS), st.integers(1, 2 * LAG_MS)),
    st.tuples(st.just("deliver"), st.sampled_from(BROKERS), st.integers(0, 3)),
    st.tuples(st.just("answer"), st.sampled_from(BROKERS), st.just(0)),
    st.tuples(st.just("elect"), st.sampled_from(BROKERS), st.integers(0, 5)),
)


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(STEP, max_size=120))
@example([("produce", 1, 0), ("elect", 1, 1), ("produce", 2, 0), ("elect", 1, 0), ("publish", 2, 0), ("fetch", 2, 0)])
@pytest.mark.thorough
def test_acknowledged_records_survive_every_election_within_the_isr(steps: list[tuple[str, int, int]]) -> None:
    cluster = Cluster()
    cluster.start()
    for name, broker, amount in steps:
        match name:
            case "produce":
                cluster.produce(broker)
            case "fetch":
                cluster.fetch(broker, amount)
            case "publish":
                cluster.publish(broker)
            case "time":
                cluster.now_ms += amount
                cluster.perform(broker, Tick())
            case "deliver":
                cluster.deliver_proposal(is_answer_lost=amount == 0, is_refused=amount == 1)
            case "answer":
                cluster.answer()
            case _:
                cluster.elect(amount)


SESSION_STEP = st.tuples(
    st.sampled_from(("append", "fetch", "fetch", "fetch", "time", "answer")), st.sampled_from((2, 3)), st.integers(0, 3)
)


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(SESSION_STEP, max_size=80))
@pytest.mark.thorough
def test_a_session_that_leaves_partitions_out_is_as_good_as_fetches_that_name_them(
    steps: list[tuple[str, int, int]],
) -> None:
    """Two leaders live through the same: one hears of each fetch, the other only of those that a session must name."""
    now_ms, end, times = 1, 0, {broker: FetchTimes(last_ms=1) for broker in (2, 3)}
    offsets = {2: 0, 3: 0}
    named, idle = (
        PartitionReplica(
            config=ReplicationConfig(broker_id=1, replica_lag_time_max_ms=LAG_MS), high_watermark=0, log_end_offset=0
        )
        for _ in range(2)
    )

    def both(event: Event) -> None:
        actions = named.handle(event, now_ms), idle.handle(event, now_ms)
        assert actions[0] == actions[1], event

    become = BecomeLeader(
        leader_epoch=1, partition_epoch=1, isr=BROKERS, replicas=BROKERS, log_end_offset=0, min_insync_replicas=1
    )
    both(become)
    for name, broker, amount in steps:
        match name:
            case "append":
                end += 1
                both(Appended(log_end_offset=end))
            case "fetch":
                offsets[broker] = min(end, offsets[broker] + amount)
                event = FollowerFetched(replica_id=broker, fetch_offset=offsets[broker])
                if idle.followers[broker].idle is None:
                    both(event)
                    idle.handle(FollowerIdles(replica_id=broker, fetches=times[broker]), now_ms)
                else:
                    assert named.handle(event, now_ms) == []
                times[broker].last_ms = now_ms
            case "time":
                now_ms += amount * LAG_MS // 4
                both(Tick())
            case _:
                isr = named.maximal_isr if amount else (1,)
                both(IsrProposalAnswered(attempt=named.proposal_attempt, error_code=0))
                both(replace(become, partition_epoch=named.partition_epoch + 1, isr=isr, log_end_offset=end))
        idle.check_invariants()
        assert (named.isr, named.high_watermark, named.maximal_isr) == (idle.isr, idle.high_watermark, idle.maximal_isr)
        assert named.next_deadline_ms() == idle.next_deadline_ms()
    for broker in (2, 3):
        both(FollowerIdles(replica_id=broker, fetches=None))
        one, other = named.followers[broker], idle.followers[broker]
        assert (one.last_caught_up_ms, one.last_fetch_ms) == (other.last_caught_up_ms, other.last_fetch_ms)


def test_the_model_acknowledges_and_truncates() -> None:
    """The property above would hold in a model where nothing ever happens: show that things happen."""
    cluster = Cluster()
    cluster.start()
    cluster.produce(1)
    for follower in (2, 3, 2, 3):
        cluster.fetch(follower, 5)
    assert cluster.acked == {1}
    cluster.produce(1)
    cluster.elect(1)
    cluster.produce(2)
    cluster.publish(1)
    cluster.publish(3)
    cluster.fetch(1, 5)
    assert [value for _, value in cluster.logs[1]] == [1], "the unacknowledged record of the old leader is cut"
    cluster.fetch(1, 5)
    assert [value for _, value in cluster.logs[1]] == [1, 3]


def test_diverging_search_steps_back_over_epochs_that_only_the_follower_has() -> None:
    leader_log = [(1, 10), (1, 11), (4, 12)]
    follower_log = [(1, 10), (2, 20), (3, 30)]
    rounds = 0
    while follower_log:
        last_epoch = follower_log[-1][0]
        diverging = diverging_epoch(
            lookup=lambda e: lookup_in(leader_log, 4, e),
            last_fetched_epoch=last_epoch,
            fetch_offset=len(follower_log),
            log_start_offset=0,
        )
        if diverging is None:
            break
        rounds += 1
        end = truncation_offset(
            lookup=lambda e: lookup_in(follower_log, follower_log[-1][0], e),
            diverging=diverging,
            log_end_offset=len(follower_log),
            high_watermark=0,
        )
        del follower_log[end:]
    assert follower_log == [(1, 10)]
    assert rounds == 1
