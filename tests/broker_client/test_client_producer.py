"""The producer's shell over real sockets: nothing lost between threads, every callback once, bounded waits."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from broker.client.core.batch import RecordMetadata
from broker.client.core.errors import ClosedError
from broker.door.clients import KafkaError, Producer, TimedOutError
from broker.wire.errors import LocalProtocolError
from tests.broker_client.tiny_broker import TinyBroker


@pytest.fixture
def broker() -> Iterator[TinyBroker]:
    with TinyBroker(partitions=2) as started:
        yield started


def make(broker: TinyBroker, **properties: object) -> Producer:
    settings = {name.replace("_", "."): value for name, value in properties.items()}
    return Producer({"bootstrap.servers": broker.bootstrap, "client.id": "unit", "retry.backoff.ms": 10, **settings})


def test_a_send_returns_where_the_record_is(broker: TinyBroker) -> None:
    with make(broker) as producer:
        first = producer.send("t", b"one", partition=1).get(10)
        second = producer.send("t", b"two", partition=1).get(10)
    assert (first.topic, first.partition, first.offset, first.serialized_value_size_bytes) == ("t", 1, 0, 3)
    assert second.offset == 1
    assert abs(first.timestamp_ms - time.time() * 1000) < 60_000
    assert broker.client_ids == {"unit"}


@pytest.mark.parametrize("linger_ms", [0, 1])
@pytest.mark.parametrize("idempotence", ["true", "false"])
@pytest.mark.thorough
def test_appends_racing_with_the_closing_of_a_batch_lose_nothing(
    broker: TinyBroker, linger_ms: int, idempotence: str
) -> None:
    """Threads append all the time while the sender closes batches by linger: a record that slips into a closed batch
    would be acknowledged and never sent. The switch interval is cut to make the threads meet at every step."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    acked: list[RecordMetadata] = []
    threads, each = 4, 5000
    try:
        with make(broker, linger_ms=linger_ms, enable_idempotence=idempotence, batch_size=2000) as producer:

            def on_delivery(place: RecordMetadata | None, error: KafkaError | None) -> None:
                assert error is None
                assert place is not None
                acked.append(place)

            def work(number: int) -> None:
                for index in range(each):
                    producer.send("t", b"%d-%05d" % (number, index), on_delivery=on_delivery)
                    if index % 50 == 0:
                        time.sleep(0.001)

            workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join(60)
            assert producer.flush(120) == 0
            metrics = producer.metrics()
    finally:
        sys.setswitchinterval(before_s)
    sent = {b"%d-%05d" % (number, index) for number in range(threads) for index in range(each)}
    arrived = Counter(broker.values())
    assert set(arrived) == sent
    assert max(arrived.values()) == 1
    assert len(acked) == threads * each
    assert len({(place.partition, place.offset) for place in acked}) == len(acked)
    assert metrics["record-send-total"] == threads * each
    assert metrics["buffer-available-bytes"] == metrics["buffer-total-bytes"]


def test_each_callback_runs_once_in_order_and_after_the_answer(broker: TinyBroker) -> None:
    seen: list[tuple[int, int]] = []
    with make(broker, acks="1") as producer:
        for index in range(1000):
            producer.send(
                "t", b"x", partition=0, on_delivery=lambda place, error, index=index: seen.append((index, place.offset))
            )
        assert producer.flush(60) == 0
    assert seen == [(index, index) for index in range(1000)]


def test_an_exception_in_a_callback_harms_nobody_else(broker: TinyBroker) -> None:
    seen: list[int] = []

    def on_delivery(place: RecordMetadata | None, error: KafkaError | None) -> None:
        assert place is not None
        seen.append(place.offset)
        if place.offset % 2:
            raise RuntimeError("of the caller")

    with make(broker) as producer:
        for _ in range(10):
            producer.send("t", b"x", partition=0, on_delivery=on_delivery)
        producer.flush(10)
        assert producer.metrics()["callback-error-total"] == 5
    assert seen == list(range(10))


def test_without_acks_the_broker_gets_everything_and_offsets_stay_unknown(broker: TinyBroker) -> None:
    with make(broker, acks="0") as producer:
        futures = [producer.send("t", b"%d" % index) for index in range(2000)]
        assert producer.flush(60) == 0
        assert {future.get(1).offset for future in futures} == {-1}
        deadline_s = time.monotonic() + 60
        while len(broker.values()) < 2000 and time.monotonic() < deadline_s:
            time.sleep(0.01)
    assert sorted(broker.values()) == sorted(b"%d" % index for index in range(2000))
    assert broker.acks_seen == {0}


def test_every_record_counts_what_it_waited_unless_the_user_gives_the_timestamps(broker: TinyBroker) -> None:
    with make(broker, linger_ms=50) as producer:
        began_s = time.monotonic()
        producer.send("t", b"first", partition=0)
        time.sleep(0.02)
        later_s = time.monotonic()
        producer.send("t", b"later", partition=0).get(10)
        end_s = time.monotonic()
        metrics = producer.metrics()
        assert metrics["record-accumulate-total"] == 2
        # The second waited 20 ms less than the first: each counts its own time, not its batch's.
        waited_ms = 1000 * ((end_s - began_s) + (end_s - later_s))
        assert 0 < metrics["record-accumulate-time-total"] < waited_ms + 2
        producer.send("t", b"stamped", partition=0, timestamp_ms=1).get(10)
        assert "record-accumulate-total" not in producer.metrics()


def test_a_dropped_connection_is_retried_and_duplicates_without_sequence_checks() -> None:
    with TinyBroker(plan=lambda number: "drop" if number == 0 else None) as broker:
        with make(broker, acks="1") as producer:
            assert producer.send("t", b"twice").get(10).offset == 1
            assert producer.metrics()["record-retry-total"] == 1
        assert broker.values() == [b"twice", b"twice"]


@pytest.mark.slow
def test_a_refusal_that_ends_the_retries_is_definite_and_silence_is_not() -> None:
    refuse, silent = (lambda number: 19), (lambda number: "hold")
    with TinyBroker(plan=refuse) as broker, make(broker, acks="1", retries=2) as producer:
        error = producer.send("t", b"x").exception(10)
        assert error is not None
        assert (error.name, error.definite, broker.produce_total) == ("NOT_ENOUGH_REPLICAS", True, 3)
    limits = {"request_timeout_ms": 100, "delivery_timeout_ms": 400, "linger_ms": 0}
    with TinyBroker(plan=silent) as broker, make(broker, acks="1", **limits) as producer:
        deadline_s = time.monotonic() + 60
        error = producer.send("t", b"x").exception(60)
        while error is not None and error.definite and not broker.produce_total:
            assert time.monotonic() < deadline_s, "a busy host lets the time of each record go by before it is sent"
            error = producer.send("t", b"x").exception(60)
        assert error is not None
        assert not error.definite


def test_a_broker_that_is_not_there_makes_a_send_fail_within_max_block() -> None:
    producer = Producer({"bootstrap.servers": "127.0.0.1:1", "max.block.ms": 150})
    began_s = time.monotonic()
    errors: list[KafkaError | None] = []
    future = producer.send("t", b"x", on_delivery=lambda place, error: errors.append(error))
    assert time.monotonic() - began_s < 20
    with pytest.raises(TimedOutError, match="no metadata of topic 't'") as caught:
        future.get(1)
    assert caught.value.definite
    assert errors == [caught.value]
    producer.close(1)


@pytest.mark.slow
def test_an_unknown_topic_is_waited_for_and_used_when_it_appears() -> None:
    with TinyBroker(knows_topics=False) as broker, make(broker) as producer:
        threading.Timer(0.2, lambda: setattr(broker, "knows_topics", True)).start()
        assert producer.send("t", b"x").get(10).offset == 0


@pytest.mark.slow
def test_a_partition_that_was_added_is_waited_for_although_the_broker_that_is_asked_learns_of_it_late() -> None:
    with TinyBroker(partitions=1) as broker, make(broker) as producer:
        assert producer.send("t", b"x", partition=0).get(10).offset == 0

        def add() -> None:
            broker.logs.append([])
            broker.partitions = 2

        threading.Timer(0.2, add).start()
        assert producer.send("t", b"y", partition=1).get(10).partition == 1


def test_a_partition_that_does_not_come_is_refused_within_max_block(broker: TinyBroker) -> None:
    with make(broker, max_block_ms=150) as producer:
        with pytest.raises(KafkaError, match=r"has partitions 0 to 1, not 2, also after max.block.ms=150") as caught:
            producer.send("t", b"x", partition=2).get(10)
        assert caught.value.definite
        with pytest.raises(KafkaError, match=r"has partitions 0 to 1, not -1"):
            producer.send("t", b"x", partition=-1).get(10)


@pytest.mark.thorough
def test_full_memory_blocks_the_sender_of_records_and_then_fails_it_for_certain() -> None:
    with TinyBroker(plan=lambda number: "hold") as broker:
        producer = make(broker, acks="1", buffer_memory=3000, batch_size=1000, max_block_ms=200, linger_ms=0)
        queued = [producer.send("t", b"x" * 900) for _ in range(3)]
        began_s = time.monotonic()
        error = producer.send("t", b"x" * 900).exception(1)
        assert 0.15 < time.monotonic() - began_s < 20
        assert error is not None
        assert error.definite
        assert "buffer.memory=3000" in str(error)
        assert producer.metrics()["bufferpool-wait-time-ns-total"] > 1e8
        producer.close(0.1)
        assert [(future.exception(1) or error).name for future in queued] == ["LOCAL_CLOSED"] * 3


def test_memory_that_comes_free_lets_a_blocked_send_go_on(broker: TinyBroker) -> None:
    with make(broker, buffer_memory=4000, batch_size=1000, linger_ms=10_000) as producer:
        futures = [producer.send("t", b"%05d" % index * 150) for index in range(100)]
        assert producer.flush(60) == 0
        assert all(future.exception(1) is None for future in futures)
    assert len(set(broker.values())) == 100


def test_a_record_larger_than_a_request_is_refused_and_others_go_on(broker: TinyBroker) -> None:
    with make(broker, max_request_size=5000) as producer:
        error = producer.send("t", b"x" * 6000).exception(1)
        assert error is not None
        assert (error.name, error.definite) == ("MESSAGE_TOO_LARGE", True)
        assert producer.send("t", b"x" * 4000).get(10).serialized_value_size_bytes == 4000


def test_close_sends_what_is_queued_and_then_refuses(broker: TinyBroker) -> None:
    producer = make(broker, linger_ms=60_000)
    futures = [producer.send("t", b"%d" % index) for index in range(100)]
    producer.close(10)
    assert all(future.done() and future.exception(0) is None for future in futures)
    assert len(broker.values()) == 100
    assert isinstance(producer.send("t", b"late").exception(1), ClosedError)
    producer.close(1)  # again does nothing


@pytest.mark.thorough
def test_close_with_a_time_limit_tells_unsent_from_unknown() -> None:
    with TinyBroker(plan=lambda number: "hold") as broker:
        producer = make(broker, acks="1", max_in_flight_requests_per_connection=1, linger_ms=0)
        sent = producer.send("t", b"first")
        deadline_s = time.monotonic() + 60
        while not broker.produce_total and time.monotonic() < deadline_s:
            time.sleep(0.01)
        queued = producer.send("t", b"second")
        producer.close(0.2)
        outcomes = [future.exception(1) for future in (sent, queued)]
        assert [error.definite for error in outcomes if error is not None] == [False, True]


def test_flush_or_close_inside_a_callback_is_an_error_not_a_deadlock(broker: TinyBroker) -> None:
    caught: list[BaseException] = []
    with make(broker) as producer:

        def on_delivery(place: RecordMetadata | None, error: KafkaError | None) -> None:
            try:
                producer.flush(1)
            except LocalProtocolError as problem:
                caught.append(problem)

        producer.send("t", b"x", on_delivery=on_delivery)
        producer.flush(10)
    assert len(caught) == 1


def test_plain_keyed_and_stamped_records_share_partitions_in_order(broker: TinyBroker) -> None:
    with make(broker) as producer:
        futures = []
        for index in range(300):
            options = ({}, {"key": b"k"}, {"timestamp_ms": 5}, {"headers": [("h", b"1")]})[index % 4]
            futures.append(producer.send("t", b"%d" % index, partition=0, **options))
        producer.flush(10)
        assert [future.get(1).offset for future in futures] == list(range(300))
        assert futures[2].get(1).timestamp_ms == 5
    assert broker.logs[0] == [b"%d" % index for index in range(300)]
