"""The sender core, event by event: in-flight limit, order, retries, what is definite, idempotence, time limits."""

from __future__ import annotations

import random

import pytest

from broker.client.core.accumulator import Accumulator
from broker.client.core.batch import Batch, TopicPartition
from broker.client.core.config import parse_producer
from broker.client.core.metadata import BrokerAddress, MetadataAnswer, MetadataCache, PartitionState, TopicState
from broker.client.core.sender import SenderCore
from broker.client.core.sender_events import (
    Action,
    AskIdentity,
    CloseNode,
    Complete,
    Connect,
    Event,
    IdentityAnswered,
    NodeConnected,
    NodeLost,
    PartitionResult,
    ProduceAnswered,
    ProduceSent,
    SendProduce,
    Tick,
)
from broker.wire.errors import ErrorCode

TP = TopicPartition("t", 0)


class Rig:
    """A sender core with partition 0 (and 1) led by broker 1; one record is one batch (batch.size=1)."""

    def __init__(self, **properties: object) -> None:
        settings = {
            "bootstrap.servers": "h:1",
            "batch.size": 1,
            "linger.ms": 0,
            "retry.backoff.ms": 100,
            "request.timeout.ms": 1000,
            "delivery.timeout.ms": 5000,
            **{name.replace("_", "."): value for name, value in properties.items()},
        }
        config = parse_producer(settings)
        self.now_ms = 0
        self.accumulator = Accumulator(
            batch_size_bytes=config.batch_size, linger_ms=config.linger_ms, buffer_memory_bytes=10**6
        )
        rng = random.Random(1)
        self.metadata = MetadataCache(max_age_ms=10**9, backoff_first_ms=1, backoff_max_ms=1, rng=rng)
        self.core = SenderCore(config, self.accumulator, self.metadata, rng)
        self.lead(1, epoch=0)

    def lead(self, leader: int, epoch: int) -> None:
        partitions = tuple(PartitionState(partition=p, leader=leader, leader_epoch=epoch) for p in (0, 1))
        brokers = tuple(BrokerAddress(broker_id=each, host="h", port=each) for each in (1, 2))
        self.metadata.on_answer(
            MetadataAnswer(brokers=brokers, topics=(TopicState(name="t", partitions=partitions),)), self.now_ms
        )

    def add(self, partition: int = 0) -> Batch:
        queue = self.accumulator.queue_of(TopicPartition("t", partition))
        appended = self.accumulator.try_append(queue, b"v", None, (), 0, None, 13, self.now_ms)
        assert appended is not None
        return appended[0]

    def tell(self, event: Event | None = None, after_ms: int = 0) -> list[Action]:
        self.now_ms += after_ms
        actions = self.core.handle(event or Tick(), self.now_ms)
        self.core.check_invariants()
        return actions

    def sent(self, event: Event | None = None, after_ms: int = 0) -> list[SendProduce]:
        return [action for action in self.tell(event, after_ms) if isinstance(action, SendProduce)]

    def sent_first(self) -> SendProduce:
        """Add one record and return its request."""
        self.add()
        [request] = self.sent()
        return request

    def refuse(self, request: SendProduce, code: int) -> list[Action]:
        results = {batch.partition: PartitionResult(error_code=code) for batch in request.batches}
        return self.tell(ProduceAnswered(request_id=request.request_id, results=results))

    def accept(self, request: SendProduce, offset: int = 0) -> list[Action]:
        results = {batch.partition: PartitionResult(base_offset=offset) for batch in request.batches}
        return self.tell(ProduceAnswered(request_id=request.request_id, results=results))


def plain(**properties: object) -> Rig:
    rig = Rig(enable_idempotence="false", acks="1", **properties)
    rig.tell(NodeConnected(node=1))
    return rig


def idempotent(**properties: object) -> Rig:
    rig = Rig(**properties)
    rig.tell(NodeConnected(node=1))
    rig.tell(IdentityAnswered(error_code=0, producer_id=9, producer_epoch=0))
    return rig


def error_of(batch: Batch) -> tuple[str, bool]:
    assert batch.outcome is not None
    assert batch.outcome.error is not None
    return batch.outcome.error.name, batch.outcome.error.definite


def test_a_connection_is_asked_for_before_anything_is_sent() -> None:
    rig = Rig(enable_idempotence="false", acks="1")
    rig.add()
    assert rig.tell() == [Connect(node=1)]
    assert len(rig.sent(NodeConnected(node=1))) == 1


def test_no_more_requests_are_in_flight_than_allowed() -> None:
    rig = plain(max_in_flight_requests_per_connection=3)
    batches = [rig.add() for _ in range(5)]
    requests = rig.sent()
    assert [request.batches for request in requests] == [(batch,) for batch in batches[:3]]
    more = [action for action in rig.accept(requests[0]) if isinstance(action, SendProduce)]
    assert [request.batches for request in more] == [(batches[3],)]


def test_one_request_carries_a_batch_of_each_partition_within_max_request_size() -> None:
    rig = plain()
    both = (rig.add(0), rig.add(1))
    assert [set(request.batches) for request in rig.sent()] == [set(both)]
    tight = plain(max_request_size=100)
    tight.add(0), tight.add(1)
    assert [len(request.batches) for request in tight.sent()] == [1, 1]


def test_with_one_in_flight_a_partition_waits_for_its_answer_even_when_the_leader_moves() -> None:
    rig = plain(max_in_flight_requests_per_connection=1)
    rig.add(), rig.add()
    [request] = rig.sent()
    rig.lead(2, epoch=1)
    rig.tell(NodeConnected(node=2))
    assert rig.sent() == []
    [after] = [action for action in rig.accept(request) if isinstance(action, SendProduce)]
    assert after.node == 2


def test_a_refused_batch_is_sent_again_after_the_backoff_and_overtaken_without_idempotence() -> None:
    rig = plain()
    first, second = rig.add(), rig.add()
    one, two = rig.sent()
    rig.refuse(one, ErrorCode.not_enough_replicas)
    rig.accept(two)
    assert second.outcome is not None  # appended before the first: this is how records change places
    assert rig.sent(after_ms=50) == []
    [again] = rig.sent(after_ms=100)
    assert again.batches == (first,)
    assert rig.core.counters.record_retry_total == 1


def test_leader_errors_ask_for_metadata() -> None:
    rig = plain()
    rig.add()
    [request] = rig.sent()
    assert rig.metadata.next_request_ms() == 10**9
    rig.refuse(request, ErrorCode.not_leader_or_follower)
    due = rig.metadata.next_request_ms()
    assert due is not None
    assert due < 10


@pytest.mark.parametrize(
    ("code", "definite"),
    [
        (ErrorCode.message_too_large, True),
        (ErrorCode.invalid_required_acks, True),
        (ErrorCode.topic_authorization_failed, True),
        (ErrorCode.unknown_server_error, False),
    ],
)
def test_a_fatal_refusal_fails_at_once(code: ErrorCode, definite: bool) -> None:
    rig = plain()
    batch = rig.add()
    [request] = rig.sent()
    assert Complete(batch=batch) in rig.refuse(request, code)
    assert error_of(batch) == (code.name.upper(), definite)
    assert rig.core.counters.record_error_total == 1


def test_exhausted_retries_are_definite_only_if_no_attempt_may_have_been_written() -> None:
    rig = plain(retries=1)
    sure = rig.add()
    rig.refuse(rig.sent()[0], ErrorCode.not_enough_replicas)
    rig.refuse(rig.sent(after_ms=200)[0], ErrorCode.not_enough_replicas)
    assert error_of(sure) == ("NOT_ENOUGH_REPLICAS", True)
    unsure = rig.add()
    rig.refuse(rig.sent()[0], ErrorCode.request_timed_out)
    rig.refuse(rig.sent(after_ms=200)[0], ErrorCode.not_enough_replicas)
    assert error_of(unsure) == ("NOT_ENOUGH_REPLICAS", False)


def test_a_lost_connection_leaves_sent_requests_unknown_and_unsent_ones_certain() -> None:
    rig = plain(retries=0)
    first, second = rig.add(), rig.add()
    _, unsent = rig.sent()
    rig.tell(NodeLost(node=1, unsent=frozenset({unsent.request_id})))
    assert error_of(first) == ("NETWORK_EXCEPTION", False)
    assert error_of(second) == ("NETWORK_EXCEPTION", True)


def test_batches_of_a_lost_connection_are_sent_again_in_their_order() -> None:
    rig = plain()
    batches = [rig.add() for _ in range(4)]
    rig.sent()
    rig.tell(NodeLost(node=1))
    rig.tell(NodeConnected(node=1), after_ms=500)
    rig.tell()
    assert [batch.attempts for batch in batches] == [1, 1, 1, 1]
    assert sorted(rig.core._requests) == [4, 5, 6, 7]
    assert [request.batches[0] for _, request in sorted(rig.core._requests.items())] == batches


def test_a_request_without_answer_closes_its_connection_after_request_timeout() -> None:
    rig = plain()
    rig.add()
    rig.sent()
    assert rig.core.next_deadline_ms(rig.now_ms) == 1000
    assert rig.tell(after_ms=999) == []
    [action] = rig.tell(after_ms=1)
    assert isinstance(action, CloseNode)
    assert rig.tell(after_ms=1) == []  # asked once


def test_delivery_timeout_ends_queued_batches_for_certain_and_sent_ones_as_unknown() -> None:
    rig = plain(max_in_flight_requests_per_connection=1, request_timeout_ms=5000)
    sent, queued = rig.add(), rig.add()
    [request] = rig.sent()
    rig.tell(after_ms=5000)
    assert error_of(sent) == ("LOCAL_TIMEOUT", False)
    assert error_of(queued) == ("LOCAL_TIMEOUT", True)
    assert rig.accept(request, 7) == []  # too late, and not a second outcome


def test_without_acks_a_batch_is_done_when_it_is_written() -> None:
    rig = Rig(enable_idempotence="false", acks="0")
    rig.tell(NodeConnected(node=1))
    batch = rig.add()
    [request] = rig.sent()
    assert rig.tell(ProduceSent(request_id=request.request_id)) == [Complete(batch=batch)]
    assert batch.metadata(0).offset == -1


def test_closing_in_time_trouble_tells_unsent_from_in_flight() -> None:
    rig = plain(max_in_flight_requests_per_connection=1)
    sent, queued = rig.add(), rig.add()
    rig.sent()
    rig.core.fail_all("closed")
    assert error_of(sent) == ("LOCAL_CLOSED", False)
    assert error_of(queued) == ("LOCAL_CLOSED", True)
    rig.core.check_invariants()


def test_an_idempotent_producer_gets_its_id_first_and_counts_per_partition() -> None:
    rig = Rig()
    rig.tell(NodeConnected(node=1))
    first, other, second = rig.add(0), rig.add(1), rig.add(0)
    assert rig.tell() == [AskIdentity()]
    assert rig.tell() == []
    rig.tell(IdentityAnswered(error_code=0, producer_id=9, producer_epoch=3))
    assert [(b.producer_id, b.producer_epoch, b.base_sequence) for b in (first, other, second)] == [
        (9, 3, 0),
        (9, 3, 0),
        (9, 3, 1),
    ]


def test_a_missing_id_is_asked_for_again_after_the_backoff() -> None:
    rig = Rig()
    rig.tell(NodeConnected(node=1))
    rig.add()
    rig.tell()
    assert rig.tell(IdentityAnswered(error_code=ErrorCode.coordinator_not_available)) == []
    assert AskIdentity() in rig.tell(after_ms=200)


def test_a_fatal_answer_to_the_id_request_fails_what_waits_for_it() -> None:
    rig = Rig()
    rig.tell(NodeConnected(node=1))
    batch = rig.add()
    rig.tell()
    rig.tell(IdentityAnswered(error_code=ErrorCode.cluster_authorization_failed))
    assert error_of(batch) == ("CLUSTER_AUTHORIZATION_FAILED", True)


def test_numbered_batches_are_retried_lowest_first_and_one_at_a_time() -> None:
    rig = idempotent()
    batches = [rig.add() for _ in range(3)]
    one, two, three = rig.sent()
    rig.refuse(one, ErrorCode.not_enough_replicas)
    rig.refuse(two, ErrorCode.out_of_order_sequence_number)
    rig.refuse(three, ErrorCode.out_of_order_sequence_number)
    [again] = rig.sent(after_ms=300)
    assert again.batches == (batches[0],)
    [second] = [action for action in rig.accept(again) if isinstance(action, SendProduce)]
    assert second.batches == (batches[1],)
    assert [batch.base_sequence for batch in batches] == [0, 1, 2]
    assert rig.core.counters.epoch_bump_total == 0


def test_a_duplicate_is_an_acknowledgement() -> None:
    rig = idempotent()
    batch = rig.add()
    rig.refuse(rig.sent()[0], ErrorCode.duplicate_sequence_number)
    assert batch.outcome is not None
    assert batch.outcome.error is None
    assert batch.metadata(0).offset == -1


@pytest.mark.parametrize(
    "code",
    [ErrorCode.out_of_order_sequence_number, ErrorCode.unknown_producer_id, ErrorCode.invalid_producer_epoch],
)
def test_a_gap_before_the_lowest_batch_bumps_the_epoch_and_starts_again_at_zero(code: ErrorCode) -> None:
    rig = idempotent()
    rig.accept(rig.sent_first())
    lowest, later = rig.add(), rig.add()
    one, two = rig.sent()
    rig.refuse(one, code)
    assert rig.sent(after_ms=300) == []  # the other one is still on the wire
    rig.refuse(two, ErrorCode.out_of_order_sequence_number)
    rig.tell(after_ms=300)
    assert (lowest.producer_epoch, lowest.base_sequence) == (1, 0)
    assert (later.producer_epoch, later.base_sequence) == (1, 1)
    assert rig.core.counters.epoch_bump_total == 1


def test_a_gap_before_a_batch_that_may_still_be_on_its_way_does_not_have_it_written_twice() -> None:
    """Found by seed 8370 of the simulation: the batch was appended by its first sending, after the refusal."""
    rig = idempotent()
    rig.accept(rig.sent_first())
    lowest = rig.add()
    rig.sent()
    rig.tell(NodeLost(node=1))
    rig.tell(NodeConnected(node=1))
    [again] = rig.sent(after_ms=300)
    rig.refuse(again, ErrorCode.out_of_order_sequence_number)
    assert error_of(lowest) == ("OUT_OF_ORDER_SEQUENCE_NUMBER", False)
    fresh = rig.add()
    [sent] = rig.sent(after_ms=300)
    assert sent.batches == (fresh,)
    assert (fresh.producer_epoch, fresh.base_sequence) == (1, 0)


def test_after_a_failed_batch_nothing_new_is_numbered_until_its_fate_is_known() -> None:
    rig = idempotent(request_timeout_ms=4000)
    failed, later = rig.add(), rig.add()
    one, two = rig.sent()
    rig.refuse(one, ErrorCode.message_too_large)
    fresh = rig.add()
    assert rig.sent() == []
    rig.refuse(two, ErrorCode.out_of_order_sequence_number)
    again, after = rig.sent(after_ms=300)
    assert error_of(failed)[1]
    assert (again.batches, after.batches) == ((later,), (fresh,))
    assert (later.producer_epoch, later.base_sequence) == (1, 0)
    assert (fresh.producer_epoch, fresh.base_sequence) == (1, 1)


def test_numbers_that_nobody_saw_are_used_again() -> None:
    rig = idempotent(retries=1)
    failed = rig.add()
    rig.sent()
    rig.tell(NodeLost(node=1, unsent=frozenset({0})))
    rig.tell(NodeConnected(node=1), after_ms=200)
    rig.tell(NodeLost(node=1, unsent=frozenset({1})))
    assert error_of(failed) == ("NETWORK_EXCEPTION", True)
    fresh = rig.add()
    rig.tell(NodeConnected(node=1))
    assert (fresh.producer_epoch, fresh.base_sequence) == (0, 0)


def test_at_most_four_batches_are_numbered_beyond_the_lowest_without_outcome() -> None:
    """Else a batch that hangs on a paused leader falls out of the five that the next leader recognises."""
    rig = idempotent()
    for _ in range(7):
        rig.add()
    hanging, *others = rig.sent()
    assert len(others) == 4
    rig.lead(2, epoch=1)
    rig.tell(NodeConnected(node=2))
    for request in others:
        assert [action for action in rig.accept(request) if isinstance(action, SendProduce)] == []
    completed, more = rig.accept(hanging)[0], rig.sent()
    assert isinstance(completed, Complete)
    assert more == []  # the two that waited went out with the answer
    assert rig.core.in_flight_request_count == 2
