"""The rules of one partition, one claim a test."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from broker.replication import (
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
    PartitionReplica,
    ProposeIsr,
    ReplicationConfig,
    StopReplica,
    Tick,
    Truncated,
)

LAG_MS = 1000


def step(replica: PartitionReplica, event: Event, now_ms: int = 0) -> list[Action]:
    actions = replica.handle(event, now_ms)
    replica.check_invariants()
    return actions


def leader(*, isr: tuple[int, ...] = (1, 2, 3), min_isr: int = 1, now_ms: int = 0) -> PartitionReplica:
    config = ReplicationConfig(broker_id=1, replica_lag_time_max_ms=LAG_MS)
    replica = PartitionReplica(config=config, high_watermark=0, log_end_offset=0)
    event = BecomeLeader(
        leader_epoch=5,
        partition_epoch=7,
        isr=isr,
        replicas=(1, 2, 3),
        log_end_offset=0,
        min_insync_replicas=min_isr,
    )
    step(replica, event, now_ms)
    return replica


def fetched(replica: PartitionReplica, follower: int, offset: int, now_ms: int = 0) -> list[Action]:
    return step(replica, FollowerFetched(replica_id=follower, fetch_offset=offset, broker_epoch=40 + follower), now_ms)


def told(
    replica: PartitionReplica, isr: tuple[int, ...], *, partition_epoch: int = 8, min_isr: int = 1, now_ms: int = 0
) -> list[Action]:
    """An image of the same leader epoch."""
    event = BecomeLeader(
        leader_epoch=5,
        partition_epoch=partition_epoch,
        isr=isr,
        replicas=(1, 2, 3),
        log_end_offset=replica.log_end_offset,
        min_insync_replicas=min_isr,
    )
    return step(replica, event, now_ms)


def answered(replica: PartitionReplica, attempt: int, error: ErrorCode = ErrorCode.none, now_ms: int = 0) -> None:
    """No answer changes what is committed: that comes by the metadata log."""
    assert step(replica, IsrProposalAnswered(attempt=attempt, error_code=int(error)), now_ms) == []


def assert_no_proposal(replica: PartitionReplica) -> None:
    """None is open: nobody but the ISR counts, and nothing is sent again, whatever the answer to the last one is."""
    answered(replica, replica.proposal_attempt, ErrorCode.network_exception)
    assert replica.maximal_isr == replica.isr
    assert replica.next_deadline_ms() != ReplicationConfig(broker_id=1).proposal_retry_ms


def test_high_watermark_is_the_lowest_end_offset_of_the_isr() -> None:
    replica = leader()
    step(replica, Appended(log_end_offset=10))
    assert fetched(replica, 2, 10) == []
    assert fetched(replica, 3, 4) == [HighWatermarkAdvanced(high_watermark=4)]
    assert fetched(replica, 3, 10) == [HighWatermarkAdvanced(high_watermark=10)]


def test_idle_follower_that_has_everything_stays_in_the_isr() -> None:
    replica = leader()
    step(replica, Appended(log_end_offset=3))
    fetched(replica, 2, 3)
    fetched(replica, 3, 3)
    assert replica.next_deadline_ms() is None
    assert step(replica, Tick(), 100 * LAG_MS) == []


def test_follower_behind_longer_than_the_lag_time_is_proposed_out() -> None:
    replica = leader()
    step(replica, Appended(log_end_offset=3))
    fetched(replica, 2, 3)
    deadline_ms = replica.next_deadline_ms()
    assert deadline_ms == LAG_MS + 1
    assert step(replica, Tick(), LAG_MS) == []
    expected = ProposeIsr(attempt=1, leader_epoch=5, partition_epoch=7, isr=(1, 2), broker_epochs=(-1, 42))
    assert step(replica, Tick(), deadline_ms) == [expected]
    assert replica.high_watermark == 0, "the one being removed still counts while the proposal is in flight"
    answered(replica, 1)
    assert replica.high_watermark == 0, "the controller has agreed, but the metadata log has not told it"
    assert told(replica, (1, 2), now_ms=deadline_ms) == [
        IsrChanged(leader_epoch=5, isr=(1, 2)),
        HighWatermarkAdvanced(high_watermark=3),
    ]


def test_follower_that_reaches_the_end_of_its_previous_fetch_counts_as_caught_up_then() -> None:
    replica = leader()
    step(replica, Appended(log_end_offset=10), 0)
    fetched(replica, 2, 0, 500)
    step(replica, Appended(log_end_offset=20), 600)
    fetched(replica, 2, 10, 900)
    assert replica.followers[2].last_caught_up_ms == 500


def idling(replica: PartitionReplica, follower: int, times: FetchTimes | None) -> list[Action]:
    return step(replica, FollowerIdles(replica_id=follower, fetches=times))


def test_fetches_of_a_session_count_for_an_idle_follower_until_the_next_append() -> None:
    replica, times = leader(), FetchTimes(last_ms=0)
    for follower in (2, 3):
        fetched(replica, follower, 0, 0)
        assert idling(replica, follower, times if follower == 2 else FetchTimes(last_ms=0)) == []
    times.last_ms = 5 * LAG_MS
    step(replica, Appended(log_end_offset=1), 5 * LAG_MS + 10)
    times.last_ms = 5 * LAG_MS + 20  # a fetch that names others only: this partition it would have to name
    assert replica.followers[2].last_caught_up_ms == 5 * LAG_MS
    assert replica.followers[3].last_caught_up_ms == 0, "its session was not used since"
    expected = ProposeIsr(attempt=1, leader_epoch=5, partition_epoch=7, isr=(1, 2), broker_epochs=(-1, 42))
    assert step(replica, Tick(), 5 * LAG_MS + 20) == [expected]


def test_a_follower_that_lacks_something_or_is_not_in_the_isr_does_not_idle() -> None:
    replica, times = leader(isr=(1, 2)), FetchTimes(last_ms=0)
    step(replica, Appended(log_end_offset=3))
    fetched(replica, 2, 2)
    fetched(replica, 3, 3)
    for follower in (2, 3, 4):
        assert not replica.has_everything(follower)
        idling(replica, follower, times)
    assert [follower.idle for follower in replica.followers.values()] == [None, None]


def test_idling_ends_with_the_session_and_with_the_isr() -> None:
    replica, times = leader(), FetchTimes(last_ms=0)
    fetched(replica, 2, 0)
    idling(replica, 2, times)
    times.last_ms = 70
    idling(replica, 2, None)  # the session no longer holds the partition
    times.last_ms = 90
    step(replica, Appended(log_end_offset=1), 100)
    assert replica.followers[2].last_caught_up_ms == 70
    fetched(replica, 2, 1, 110)
    idling(replica, 2, times)
    shrunk = BecomeLeader(
        leader_epoch=5, partition_epoch=8, isr=(1, 3), replicas=(1, 2, 3), log_end_offset=1, min_insync_replicas=1
    )
    step(replica, shrunk, 120)
    assert replica.followers[2].idle is None, "it is to be brought in again by its next fetch"


def test_follower_joins_the_isr_when_it_reaches_the_high_watermark() -> None:
    replica = leader(isr=(1, 2))
    step(replica, Appended(log_end_offset=10))
    fetched(replica, 2, 10)
    assert replica.high_watermark == 10
    assert fetched(replica, 3, 9) == []
    expected = ProposeIsr(attempt=1, leader_epoch=5, partition_epoch=7, isr=(1, 2, 3), broker_epochs=(-1, 42, 43))
    assert fetched(replica, 3, 10) == [expected]
    step(replica, Appended(log_end_offset=11))
    assert fetched(replica, 2, 11) == [], "the joining replica counts for the high watermark already"
    answered(replica, 1)
    assert told(replica, (1, 2, 3)) == [IsrChanged(leader_epoch=5, isr=(1, 2, 3))]
    assert fetched(replica, 3, 11) == [HighWatermarkAdvanced(high_watermark=11)]


def test_follower_below_the_epoch_start_does_not_join() -> None:
    replica = PartitionReplica(config=ReplicationConfig(broker_id=1), high_watermark=2, log_end_offset=9)
    event = BecomeLeader(
        leader_epoch=2, partition_epoch=1, isr=(1,), replicas=(1, 2), log_end_offset=9, min_insync_replicas=2
    )
    step(replica, event)
    assert fetched(replica, 2, 5) == [], "it has the high watermark but not what earlier leaders may have committed"
    assert isinstance(fetched(replica, 2, 9)[0], ProposeIsr)


def test_lost_answer_is_asked_again_and_refusal_reverts() -> None:
    replica = leader(isr=(1, 2))
    fetched(replica, 3, 0)
    answered(replica, 1, ErrorCode.not_controller, 50)
    assert replica.next_deadline_ms() == 250
    assert isinstance(step(replica, Tick(), 250)[0], ProposeIsr)
    answered(replica, 2, ErrorCode.ineligible_replica)
    assert replica.maximal_isr == (1, 2)
    assert_no_proposal(replica)


def test_image_with_a_newer_partition_epoch_ends_the_proposal() -> None:
    replica = leader(isr=(1, 2))
    fetched(replica, 3, 0)
    assert told(replica, (1, 2, 3)) == [IsrChanged(leader_epoch=5, isr=(1, 2, 3))]
    assert_no_proposal(replica)


def test_what_the_controller_agreed_to_is_neither_sent_again_nor_followed_by_another_before_the_log_tells_it() -> None:
    replica = leader(isr=(1, 2))
    fetched(replica, 3, 0)
    answered(replica, 1)
    assert replica.next_deadline_ms() is None
    step(replica, Appended(log_end_offset=10))
    fetched(replica, 3, 10)
    assert step(replica, Tick(), 3 * LAG_MS) == [], "broker 2 is late, but what the ISR is has not been told"
    assert told(replica, (1, 2, 3), now_ms=3 * LAG_MS) == [IsrChanged(leader_epoch=5, isr=(1, 2, 3))]
    assert isinstance(step(replica, Tick(), 3 * LAG_MS)[0], ProposeIsr)


def test_nothing_is_committed_by_a_smaller_isr_before_a_raised_minimum_that_was_decided_before_it_is_known() -> None:
    """Seed 5439 of the simulation. The minimum is raised to 2, and the leader hears nothing of it. The controller then
    agrees that broker 2 leaves the ISR {1, 2}. It keeps broker 2 as eligible to lead, because an ISR of one commits
    nothing under a minimum of 2. So the leader must not commit alone by the old minimum, or broker 2 would be elected
    without an acknowledged record. The log tells both changes, in their order."""
    replica = leader(isr=(1, 2), min_isr=1)
    step(replica, Appended(log_end_offset=10))
    step(replica, AwaitReplication(token=1, required_offset=10, deadline_ms=60_000))
    assert step(replica, Tick(), LAG_MS + 1) == [
        ProposeIsr(attempt=1, leader_epoch=5, partition_epoch=7, isr=(1,), broker_epochs=(-1,))
    ]
    answered(replica, 1, now_ms=LAG_MS + 1)
    step(replica, Tick(), 2 * LAG_MS)
    assert replica.high_watermark == 0
    assert told(replica, (1,), min_isr=2, now_ms=2 * LAG_MS) == [IsrChanged(leader_epoch=5, isr=(1,))]
    assert replica.high_watermark == 0


def test_the_answer_to_an_older_proposal_does_not_void_a_newer_one() -> None:
    """Shown by review: a high watermark of 300 was acknowledged while a member of the ISR held 150.

    The leader proposes {1, 2}; before the answer comes, an image with a newer partition epoch ends that proposal, and
    it proposes {1, 3}. The answer to the first one, a refusal, says nothing of the second, which the controller takes.
    """
    replica = leader(isr=(1,))
    first = fetched(replica, 2, 0)
    assert isinstance(first[0], ProposeIsr)
    told(replica, (1,))
    second = fetched(replica, 3, 0)
    assert isinstance(second[0], ProposeIsr)
    step(replica, Appended(log_end_offset=300))
    answered(replica, first[0].attempt, ErrorCode.ineligible_replica)
    assert replica.maximal_isr == (1, 3)
    fetched(replica, 3, 150, LAG_MS // 2)
    step(replica, Tick(), 3 * LAG_MS)
    assert replica.high_watermark == 150, "what the second proposal brings in may be in the ISR by now"
    answered(replica, first[0].attempt, ErrorCode.network_exception)
    assert replica.next_deadline_ms() != 3 * LAG_MS + 200, "the second proposal is not sent twice"


def test_a_proposed_member_does_not_lift_the_isr_to_the_minimum() -> None:
    """Partition.isUnderMinIsr counts the committed ISR (KIP-966); the maximal one only holds the watermark back."""
    replica = leader(isr=(1,), min_isr=2)
    step(replica, Appended(log_end_offset=10))
    proposed = fetched(replica, 2, 10)
    assert isinstance(proposed[0], ProposeIsr)
    assert replica.maximal_isr == (1, 2)
    assert replica.high_watermark == 0, "the controller may still refuse broker 2"
    answered(replica, proposed[0].attempt)
    assert HighWatermarkAdvanced(high_watermark=10) in told(replica, (1, 2), min_isr=2)


def test_acks_all_is_refused_before_the_append_under_min_insync_replicas() -> None:
    replica = leader(isr=(1,), min_isr=2)
    assert replica.check_append(acks=-1) is ErrorCode.not_enough_replicas
    assert replica.check_append(acks=1) is ErrorCode.none
    step(replica, Appended(log_end_offset=1))
    assert replica.high_watermark == 0, "nothing is committed under min.insync.replicas"


def test_what_counts_as_replicated_is_what_a_wait_would_answer_at_once() -> None:
    seen = set()
    for isr, min_isr, acked in [((1,), 1, 0), ((1,), 2, 0), ((1, 2), 1, 3), ((1, 2), 2, 5), ((1, 2), 3, 5)]:
        replica = leader(isr=(1, 2), min_isr=min_isr)
        step(replica, Appended(log_end_offset=5))
        fetched(replica, 2, acked)
        changed = BecomeLeader(
            leader_epoch=5,
            partition_epoch=8,
            isr=isr,
            replicas=(1, 2, 3),
            log_end_offset=5,
            min_insync_replicas=min_isr,
        )
        step(replica, changed)
        for offset in (0, 3, 4, 5):
            is_replicated = replica.is_replicated(offset)
            asked = AwaitReplication(token=1, required_offset=offset, deadline_ms=100)
            done = step(replica, asked) == [CompleteProduce(token=1, error_code=ErrorCode.none)]
            assert is_replicated is done, (isr, min_isr, acked, offset)
            seen.add(done)
    assert seen == {True, False}
    step(replica, StopReplica())
    assert not replica.is_replicated(0)


def test_acks_all_waits_for_the_high_watermark() -> None:
    replica = leader()
    step(replica, Appended(log_end_offset=2))
    assert step(replica, AwaitReplication(token=9, required_offset=2, deadline_ms=500)) == []
    fetched(replica, 2, 2)
    assert fetched(replica, 3, 2) == [
        HighWatermarkAdvanced(high_watermark=2),
        CompleteProduce(token=9, error_code=ErrorCode.none),
    ]
    again = step(replica, AwaitReplication(token=10, required_offset=2, deadline_ms=500))
    assert again == [CompleteProduce(token=10, error_code=ErrorCode.none)]


def test_acks_all_times_out_and_fails_on_loss_of_leadership() -> None:
    replica = leader()
    step(replica, Appended(log_end_offset=2))
    step(replica, AwaitReplication(token=1, required_offset=1, deadline_ms=400))
    step(replica, AwaitReplication(token=2, required_offset=2, deadline_ms=900))
    assert replica.next_deadline_ms() == 400
    assert step(replica, Tick(), 400) == [CompleteProduce(token=1, error_code=ErrorCode.request_timed_out)]
    follow = BecomeFollower(
        leader_id=2, leader_epoch=6, partition_epoch=8, isr=(2, 3), replicas=(1, 2, 3), log_end_offset=2
    )
    assert step(replica, follow, 500) == [CompleteProduce(token=2, error_code=ErrorCode.not_leader_or_follower)]


def test_isr_that_shrinks_under_the_minimum_after_the_append_is_reported() -> None:
    replica = leader(min_isr=2)
    step(replica, Appended(log_end_offset=2))
    step(replica, AwaitReplication(token=1, required_offset=2, deadline_ms=5000))
    step(replica, Tick(), LAG_MS + 1)
    answered(replica, 1, now_ms=LAG_MS + 2)
    told(replica, (1,), min_isr=2, now_ms=LAG_MS + 2)
    expected = [CompleteProduce(token=1, error_code=ErrorCode.not_enough_replicas_after_append)]
    assert step(replica, Tick(), 5000) == expected


def test_stopped_replica_answers_what_waits() -> None:
    replica = leader()
    step(replica, Appended(log_end_offset=2))
    step(replica, AwaitReplication(token=1, required_offset=2, deadline_ms=5000))
    assert step(replica, StopReplica()) == [CompleteProduce(token=1, error_code=ErrorCode.not_leader_or_follower)]
    assert replica.check_append(acks=1) is ErrorCode.not_leader_or_follower


def test_follower_high_watermark_follows_the_leader_within_its_log() -> None:
    replica = PartitionReplica(config=ReplicationConfig(broker_id=2), high_watermark=0, log_end_offset=0)
    follow = BecomeFollower(
        leader_id=1, leader_epoch=3, partition_epoch=0, isr=(1, 2), replicas=(1, 2), log_end_offset=0
    )
    step(replica, follow)
    event = FetchedFromLeader(leader_epoch=3, leader_high_watermark=9, log_end_offset=4)
    assert step(replica, event) == [HighWatermarkAdvanced(high_watermark=4)]
    assert step(replica, FetchedFromLeader(leader_epoch=2, leader_high_watermark=9, log_end_offset=5)) == []
    step(replica, Truncated(log_end_offset=2))
    assert replica.high_watermark == 2


def test_epoch_of_the_peer_is_fenced() -> None:
    replica = leader()
    assert replica.check_leader_epoch(-1) is ErrorCode.none
    assert replica.check_leader_epoch(5) is ErrorCode.none
    assert replica.check_leader_epoch(4) is ErrorCode.fenced_leader_epoch
    assert replica.check_leader_epoch(6) is ErrorCode.unknown_leader_epoch


def test_fenced_replica_that_kept_up_does_not_hold_the_high_watermark_back() -> None:
    replica = leader()
    step(replica, BrokersChanged(eligible_epochs={1: 41, 2: 42, 3: 43}))
    step(replica, Appended(log_end_offset=1))
    fetched(replica, 2, 1, 5)
    fetched(replica, 3, 1, 5)
    step(replica, Appended(log_end_offset=2))
    fetched(replica, 2, 2, 10)
    shrunk = BecomeLeader(
        leader_epoch=5, partition_epoch=8, isr=(1, 2), replicas=(1, 2, 3), log_end_offset=2, min_insync_replicas=1
    )
    assert step(replica, shrunk, 20) == [IsrChanged(leader_epoch=5, isr=(1, 2))], "it could still come back"
    event = BrokersChanged(eligible_epochs={1: 41, 2: 42})
    assert step(replica, event, 20) == [HighWatermarkAdvanced(high_watermark=2)]
    assert fetched(replica, 3, 2, 30) == [], "a fenced replica is not proposed"
    step(replica, BrokersChanged(eligible_epochs={1: 41, 2: 42, 3: 99}))
    assert fetched(replica, 3, 2, 40) == [], "nor one of an earlier incarnation"


def test_a_produce_goes_on_waiting_when_a_replica_is_removed_and_the_leader_stays() -> None:
    """A reassignment ends with a new leader epoch of the same leader (KIP-455). Its log goes on, so a record that was
    appended before is committed after it, and its producer need not send it again."""
    replica = leader(isr=(1, 2, 3))
    step(replica, Appended(log_end_offset=4))
    step(replica, AwaitReplication(token=9, required_offset=4, deadline_ms=500))
    again = BecomeLeader(
        leader_epoch=6, partition_epoch=8, isr=(1, 2), replicas=(1, 2), log_end_offset=4, min_insync_replicas=1
    )
    assert step(replica, again) == []
    assert fetched(replica, 2, 4) == [
        HighWatermarkAdvanced(high_watermark=4),
        CompleteProduce(token=9, error_code=ErrorCode.none),
    ]
    step(replica, Appended(log_end_offset=5))
    step(replica, AwaitReplication(token=10, required_offset=5, deadline_ms=500))
    follows = BecomeFollower(
        leader_id=2, leader_epoch=7, partition_epoch=9, isr=(1, 2), replicas=(1, 2), log_end_offset=5
    )
    assert step(replica, follows) == [CompleteProduce(token=10, error_code=ErrorCode.not_leader_or_follower)]
