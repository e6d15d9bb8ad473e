"""What the checker of partitions must not take for a violation; what it must is shown by the mutants."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import UUID

import pytest

from broker.controller.image import MetadataImage, PartitionState, TopicState
from broker.replication import ProposeIsr
from broker.sim.coverage import Coverage
from broker.sim.partition_checker import PartitionChecker
from broker.sim.partition_truth import BatchSeen, drop_uncommitted
from broker.sim.proposals import missing_of
from broker.sim.transaction_checker import TransactionChecker


def batch(offset: int, epoch: int) -> BatchSeen:
    return BatchSeen(offset, offset, epoch, 0, -1, -1, -1, -1, False, False, False)


def no_violation(invariant: str, message: str) -> None:
    raise AssertionError(f"{invariant}: {message}")


def checker(*, has_strangers: bool = False) -> PartitionChecker:
    coverage = Coverage()
    return PartitionChecker(
        fail=no_violation,
        coverage=coverage,
        transactions=TransactionChecker(fail=no_violation, coverage=coverage),
        can_lose_power_unsynced=False,
        has_strangers=has_strangers,
    )


def image(topic_id: int) -> MetadataImage:
    state = PartitionState(replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0)
    topic = TopicState(name="t", topic_id=UUID(int=topic_id), partitions=(state,))
    return MetadataImage(topics={"t": topic}, topic_names={topic.topic_id: "t"})


def test_a_leader_that_hears_late_needs_not_hold_what_a_later_epoch_committed() -> None:
    # Seed 112 once: broker 2, isolated, learns that it leads epoch 2 when broker 3 already commits in epoch 3.
    truth = checker()._truth(("t", 0))
    truth.committed = [batch(0, 1), batch(1, 1), batch(2, 3)]
    truth.committed_by = [1, 3, 3]
    assert truth.committed_until(0) == []
    assert truth.committed_until(2) == [batch(0, 1)]
    assert truth.committed_until(3) == truth.committed


def test_a_topic_that_is_made_again_has_nothing_committed() -> None:
    # Fuzzing once: __consumer_offsets was deleted, the next request made it again, "its high watermark fell".
    seen = checker()
    seen.image_changed(MetadataImage(), image(1))
    seen._truth(("t", 0)).committed.append(batch(0, 0))
    seen.mirror(1, ("t", 0)).append(batch(0, 0))
    seen.image_changed(image(1), image(1))
    assert seen.committed_end(("t", 0)) == 1
    seen.image_changed(image(1), image(2))
    assert seen.committed_end(("t", 0)) == 0
    assert seen.mirror(1, ("t", 0)) == []


def test_sequences_of_no_producer_mean_nothing() -> None:
    # Fuzzing once (block seed 30): a batch without a producer id, but with an epoch and the highest sequence.
    seen = checker()
    damaged = batch(0, 0)._replace(producer_id=-1, producer_epoch=3, base_sequence=2**31 - 1)
    seen._sequences.check(seen._truth(("t", 0)), ("t", 0), damaged)


def test_a_producer_that_nobody_knows_may_begin_anywhere_in_bad_input_and_nowhere_else() -> None:
    # Fuzzing once (block seed 127): producer 5, of which the partition knew nothing, with sequence 1.
    first = batch(0, 0)._replace(producer_id=5, producer_epoch=0, base_sequence=1)
    seen = checker(has_strangers=True)
    seen._sequences.check(seen._truth(("t", 0)), ("t", 0), first)
    with pytest.raises(AssertionError, match="no batch is missing"):
        checker()._sequences.check(seen._truth(("t", 1)), ("t", 1), first)


def test_what_was_written_when_the_storage_failed_is_not_vouched_for() -> None:
    # Seed 1549 once: a sync failed, the power went, the next life ended before it had opened the log.
    seen, where = checker(), (1, ("t", 0))
    mirror = seen.mirror(*where)
    mirror += [batch(0, 0), batch(1, 0)]
    seen._vouched[where] = 1
    for _ in range(2):
        seen._note_stored(where, mirror, is_known=True)
        seen._to_read_again.add(where)
        assert seen._stored[where] == (1, batch(0, 0))
    seen._note_stored(where, mirror, is_known=False)
    assert where not in seen._stored


def test_a_leader_whose_topic_is_deleted_may_forget_its_proposals() -> None:
    # Seed 2186 once.
    proposal = ProposeIsr(attempt=2, leader_epoch=0, partition_epoch=1, isr=(2, 1, 5), broker_epochs=(-1, 50, 35))
    facts = {"leader_epoch": 0, "partition_epoch": 1, "maximal_isr": {1, 2}}
    assert missing_of(SimpleNamespace(is_leader=True, **facts), proposal) == {5}
    assert missing_of(SimpleNamespace(is_leader=False, **facts), proposal) == set()


def test_a_log_that_begins_anew_behind_its_other_end_is_not_compared_with_that_end() -> None:
    # Seed 55 with a share group once: the end of a follower's log was of an old epoch. In one event it dropped its log
    # and began where its leader's log begins.
    log = [batch(0, 0), batch(1, 0)]
    drop_uncommitted(log, [batch(0, 0), batch(1, 1), batch(2, 1)])
    assert log == [batch(0, 0)]
