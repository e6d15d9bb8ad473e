"""The share consumer's core, by hand and against a model of brokers made of the cores of share_groups/delivery."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from broker.client.core.batch import TopicPartition
from broker.client.core.errors import KafkaError
from broker.client.core.shares.ranges import ranges_of
from broker.client.core.shares.values import (
    FINAL_EPOCH,
    AcknowledgeType,
    Outcome,
    ShareAnswer,
    SharePart,
    ShareRequest,
)
from broker.wire.errors import ErrorCode
from tests.amount import seeds
from tests.broker_client.share_core_helper import LOCK_MS, A, Brokers, fetcher_of, log_of, run_of

ACCEPT, RELEASE, REJECT, RENEW = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.RENEW,
)
A0 = TopicPartition("a", 0)
PLACE = (A, 0)
LOST = KafkaError(ErrorCode.network_exception, "gone", definite=False)


def part(offsets: range, *, count: int = 1, acquired: range | None = None) -> SharePart:
    given = offsets if acquired is None else acquired
    return SharePart(records=log_of(offsets), acquired=((given.start, given.stop - 1, count),))


def answer_of(part: SharePart) -> ShareAnswer:
    return ShareAnswer(lock_timeout_ms=LOCK_MS, parts={PLACE: part})


def errors_of(outcomes: list[Outcome]) -> list[tuple[str, bool] | None]:
    return [None if each.error is None else (each.error.name, each.error.definite) for each in outcomes]


def test_the_first_request_names_the_partitions_and_later_ones_what_changed() -> None:
    fetcher = fetcher_of()
    fetcher.assign([A0, TopicPartition("a", 1)])
    [(node, first)] = fetcher.plan(0, wants_records=True).items()
    assert (node, first) == (1, ShareRequest(epoch=0, is_fetch=True, added=frozenset({PLACE, (A, 1)})))
    fetcher.on_sent(1, first)
    assert fetcher.plan(0, wants_records=True) == {}, "one request at a time"
    fetcher.on_answer(1, ShareAnswer(lock_timeout_ms=LOCK_MS), 10)
    assert fetcher.plan(10, wants_records=True)[1] == ShareRequest(epoch=1, is_fetch=True)
    fetcher.assign([A0])
    assert fetcher.plan(10, wants_records=True)[1].forgotten == {(A, 1)}


def test_records_are_taken_acknowledged_and_confirmed_with_the_next_fetch() -> None:
    fetcher = fetcher_of()
    run_of(fetcher, part(range(4)))
    assert fetcher.plan(0, wants_records=True) == {}, "records wait for the application"
    assert [each.offset for each in fetcher.take(3, 0)] == [0, 1, 2]
    assert fetcher.unacknowledged == 3
    for offset, kind in ((0, ACCEPT), (1, RELEASE), (2, REJECT)):
        fetcher.acknowledge(A0, offset, kind)
    assert [(each.offset, each.delivery_count) for each in fetcher.take(3, 0)] == [(3, 1)]
    fetcher.acknowledge_all(ACCEPT)
    fetcher.flush()
    request = fetcher.plan(0, wants_records=True)[1]
    assert request.is_fetch
    assert ranges_of(request.acks[PLACE]) == [(0, 3, (1, 2, 3, 1))]
    fetcher.on_sent(1, request)
    assert fetcher.has_unconfirmed
    fetcher.on_answer(1, answer_of(SharePart()), 5)
    [outcome] = fetcher.take_outcomes()
    assert outcome == Outcome(partition=A0, types={0: ACCEPT, 1: RELEASE, 2: REJECT, 3: ACCEPT})
    assert not fetcher.has_unconfirmed


def test_offsets_without_a_record_are_acknowledged_as_gaps_and_not_told() -> None:
    fetcher = fetcher_of()
    run_of(fetcher, part(range(3), acquired=range(5)))
    assert [each.offset for each in fetcher.take(10, 0)] == [0, 1, 2]
    fetcher.acknowledge_all(ACCEPT)
    fetcher.flush()
    request = fetcher.plan(0, wants_records=False)[1]
    assert not request.is_fetch
    assert ranges_of(request.acks[PLACE]) == [(0, 4, (1, 1, 1, 0, 0))]
    fetcher.on_sent(1, request)
    fetcher.on_answer(1, answer_of(SharePart()), 5)
    assert [each.types for each in fetcher.take_outcomes()] == [{0: ACCEPT, 1: ACCEPT, 2: ACCEPT}]


def test_only_acquired_records_of_a_batch_are_given_out() -> None:
    fetcher = fetcher_of()
    run_of(fetcher, part(range(10), acquired=range(4, 6), count=3))
    assert [(each.offset, each.delivery_count) for each in fetcher.take(10, 0)] == [(4, 3), (5, 3)]


def test_the_records_of_a_damaged_batch_are_rejected_and_the_error_is_raised_once() -> None:
    fetcher = fetcher_of()
    damaged = bytearray(log_of(range(3)))
    damaged[-1] ^= 1
    run_of(fetcher, SharePart(records=bytes(damaged), acquired=((0, 2, 1),)))
    with pytest.raises(KafkaError, match="CORRUPT_MESSAGE"):
        fetcher.take(10, 0)
    assert fetcher.take(10, 0) == []
    assert ranges_of(fetcher.plan(0, wants_records=False)[1].acks[PLACE]) == [(0, 2, (3,))]


def test_a_claim_of_endless_offsets_ends_the_session_and_fills_no_memory() -> None:
    fetcher = fetcher_of()
    run_of(fetcher, SharePart(acquired=((0, 2**62, 1),)))
    assert fetcher.open_sessions == []
    assert fetcher.take(10, 0) == []


def test_a_lost_connection_makes_sent_acknowledgements_unknown_and_others_failed() -> None:
    fetcher = fetcher_of()
    run_of(fetcher, part(range(4)))
    fetcher.take(2, 0)
    fetcher.acknowledge(A0, 0, ACCEPT)
    fetcher.flush()
    fetcher.on_sent(1, fetcher.plan(0, wants_records=False)[1])
    fetcher.acknowledge(A0, 1, ACCEPT)
    fetcher.flush()
    fetcher.on_failed(1, LOST, 5)
    assert errors_of(fetcher.take_outcomes()) == [("NETWORK_EXCEPTION", False), ("SHARE_SESSION_NOT_FOUND", True)]
    assert fetcher.take(10, 5) == [], "the broker offers the waiting records again"
    assert fetcher.plan(5, wants_records=True) == {}, "after a backoff"
    assert fetcher.plan(5000, wants_records=True)[1].epoch == 0


def test_an_acknowledgement_after_the_session_was_lost_fails_at_once() -> None:
    fetcher = fetcher_of()
    run_of(fetcher, part(range(1)))
    fetcher.take(1, 0)
    fetcher.on_failed(1, LOST, 5)
    fetcher.acknowledge_all(ACCEPT)
    fetcher.flush()
    assert errors_of(fetcher.take_outcomes()) == [("SHARE_SESSION_NOT_FOUND", True)]
    fetcher.check_invariants()


def test_records_whose_lock_has_ended_are_not_given_out() -> None:
    fetcher = fetcher_of()
    run_of(fetcher, part(range(2)))
    assert [each.offset for each in fetcher.take(1, LOCK_MS - 1)] == [0]
    assert fetcher.take(1, LOCK_MS) == []
    fetcher.check_invariants()


def test_a_renewed_record_is_given_out_once_more_and_is_renewed_without_a_fetch() -> None:
    fetcher = fetcher_of()
    run_of(fetcher, part(range(2)))
    fetcher.take(2, 0)
    fetcher.acknowledge(A0, 0, ACCEPT)
    fetcher.acknowledge(A0, 1, RENEW)
    fetcher.flush()
    request = fetcher.plan(0, wants_records=True)[1]
    assert (request.is_fetch, request.is_renewing) == (False, True)
    fetcher.on_sent(1, request)
    fetcher.check_invariants()
    fetcher.on_answer(1, answer_of(SharePart()), 5)
    assert fetcher.plan(5, wants_records=True) == {}, "the renewed record waits for the application"
    assert [each.offset for each in fetcher.take(2, 5)] == [1]
    fetcher.acknowledge(A0, 1, ACCEPT)
    fetcher.check_invariants()


def test_a_renewal_that_failed_is_told_and_the_record_is_not_given_out() -> None:
    fetcher = fetcher_of()
    run_of(fetcher, part(range(1)))
    fetcher.take(1, 0)
    fetcher.acknowledge(A0, 0, RENEW)
    fetcher.flush()
    fetcher.on_sent(1, fetcher.plan(0, wants_records=True)[1])
    fetcher.on_answer(1, answer_of(SharePart(acknowledge_error=int(ErrorCode.invalid_record_state))), 5)
    assert errors_of(fetcher.take_outcomes()) == [("INVALID_RECORD_STATE", True)]
    assert fetcher.take(1, 5) == []
    fetcher.check_invariants()


def test_records_of_a_revoked_partition_are_released_if_the_application_does_not_have_them() -> None:
    fetcher = fetcher_of()
    run_of(fetcher, part(range(3)))
    fetcher.take(1, 0)
    fetcher.assign([])
    fetcher.acknowledge_all(ACCEPT)
    fetcher.flush()
    request = fetcher.plan(0, wants_records=True)[1]
    assert ranges_of(request.acks[PLACE]) == [(0, 2, (1, 2, 2))]
    fetcher.on_sent(1, request)
    fetcher.on_answer(1, answer_of(SharePart()), 0)
    assert fetcher.plan(0, wants_records=True)[1] == ShareRequest(epoch=FINAL_EPOCH, is_fetch=False)


def test_closing_sends_what_waits_and_ends_each_session() -> None:
    fetcher = fetcher_of()
    run_of(fetcher, part(range(3)))
    fetcher.take(2, 0)
    fetcher.acknowledge(A0, 0, ACCEPT)
    fetcher.flush()
    [(node, last)] = fetcher.plan_close().items()
    assert last == ShareRequest(epoch=FINAL_EPOCH, is_fetch=False, acks={PLACE: {0: ACCEPT}})
    fetcher.on_sent(node, last)
    fetcher.on_answer(node, answer_of(SharePart()), 0)
    assert errors_of(fetcher.take_outcomes()) == [None]
    assert fetcher.open_sessions == []


@pytest.mark.parametrize(
    ("error", "is_raised"),
    [
        (ErrorCode.share_session_not_found, False),
        (ErrorCode.invalid_share_session_epoch, False),
        (ErrorCode.coordinator_not_available, False),
        (ErrorCode.group_authorization_failed, True),
    ],
)
def test_a_refused_request_begins_a_new_session(error: ErrorCode, is_raised: bool) -> None:
    fetcher = fetcher_of()
    run_of(fetcher, part(range(1)))
    fetcher.take(1, 0)
    fetcher.acknowledge_all(ACCEPT)
    fetcher.flush()
    fetcher.on_sent(1, fetcher.plan(0, wants_records=True)[1])
    fetcher.on_answer(1, ShareAnswer(error_code=int(error)), 5)
    [outcome] = fetcher.take_outcomes()
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.definite) == (error, True)
    if is_raised:
        with pytest.raises(KafkaError):
            fetcher.take(1, 5)
    assert fetcher.take(1, 5) == []
    assert fetcher.plan(5000, wants_records=True)[1].epoch == 0


def test_an_error_of_a_partition_is_retried_after_a_backoff() -> None:
    fetcher = fetcher_of()
    run_of(fetcher, SharePart(error_code=int(ErrorCode.not_leader_or_follower)))
    assert fetcher.plan(0, wants_records=True) == {}
    assert fetcher.next_retry_ms(0) is not None
    assert fetcher.plan(5000, wants_records=True)[1].is_fetch


def test_an_acknowledgement_left_out_of_the_answer_is_unknown() -> None:
    fetcher = fetcher_of()
    run_of(fetcher, part(range(1)))
    fetcher.take(1, 0)
    fetcher.acknowledge_all(ACCEPT)
    fetcher.flush()
    fetcher.on_sent(1, fetcher.plan(0, wants_records=False)[1])
    fetcher.on_answer(1, ShareAnswer(lock_timeout_ms=LOCK_MS), 5)
    assert errors_of(fetcher.take_outcomes()) == [("LOCAL_ANSWER", False)]


def test_only_what_was_delivered_can_be_acknowledged() -> None:
    fetcher = fetcher_of()
    run_of(fetcher, part(range(2)))
    fetcher.take(1, 0)
    for offset, kind in ((1, ACCEPT), (0, AcknowledgeType.GAP)):
        with pytest.raises(KafkaError, match="no record that waits"):
            fetcher.acknowledge(A0, offset, kind)


@pytest.mark.parametrize("seed", seeds(40, fast=10))
def test_over_random_schedules_each_record_is_processed_and_none_again_after_a_confirmed_acceptance(seed: int) -> None:
    """Two consumers, two brokers with share partitions, lost connections before and after the request arrives, locks
    that time out, and applications that accept, release, reject and renew."""
    world = Brokers(random.Random(seed), records=40)
    world.run(rounds=400)
    world.settle()
    for place, offsets in world.offsets().items():
        for offset in offsets:
            assert world.is_final(place, offset), f"{place} at {offset}"
    assert world.delivered_after_confirmation == []
    assert world.lost_without_a_reason() == []
    assert Counter(world.deliveries).total() >= 80
