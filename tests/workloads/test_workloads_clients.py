"""Kafka's property names reach librdkafka, what it cannot set is refused by name, and outcomes are not overstated."""

from __future__ import annotations

import pytest

from runlog.schema import SendStatus
from workloads.clients import make_consumer, make_producer
from workloads.clients.confluent import classify, consumer_settings, producer_settings
from workloads.clients.protocol import PropertyError, SendToken

KNOBS = {
    "acks": "all", "batch.size": "131072", "linger.ms": "5", "compression.type": "lz4", "buffer.memory": "33554432",
    "max.in.flight.requests.per.connection": "5", "enable.idempotence": "true", "retries": "2147483647",
    "retry.backoff.ms": "100", "delivery.timeout.ms": "30000", "request.timeout.ms": "2000", "client.id": "x",
    "metadata.max.age.ms": "60000", "max.request.size": "2000000", "send.buffer.bytes": "131072",
}  # fmt: skip


def _ignore(token: SendToken, status: SendStatus, error: int, partition: int, offset: int) -> None:
    return None


def test_every_knob_is_accepted_by_librdkafka_itself() -> None:
    producer = make_producer("confluent", "127.0.0.1:1", "t", KNOBS, _ignore)
    effective = producer.effective()
    assert effective["queue.buffering.max.kbytes"] == "32768"
    assert effective["message.max.bytes"] == "2000000"
    assert effective["socket.send.buffer.bytes"] == "131072"
    assert effective["linger.ms"] == "5"
    producer.close(0.1)


def test_kafkas_request_timeout_is_both_of_librdkafkas() -> None:
    settings = producer_settings({"request.timeout.ms": "1500"})
    assert (settings["request.timeout.ms"], settings["socket.timeout.ms"]) == ("1500", "1500")


@pytest.mark.parametrize("name", ["max.block.ms", "batch.sizes", "interceptor.classes", "linger_ms"])
def test_a_property_without_equivalent_is_named(name: str) -> None:
    with pytest.raises(PropertyError, match=f"client confluent cannot set {name}"):
        make_producer("confluent", "127.0.0.1:1", "t", {name: "1"}, _ignore)
    with pytest.raises(PropertyError, match=name):
        make_consumer("confluent", "127.0.0.1:1", "t", {name: "1"})


def test_a_value_that_librdkafka_refuses_is_named() -> None:
    with pytest.raises(PropertyError, match=r"compression\.type"):
        make_producer("confluent", "127.0.0.1:1", "t", {"compression.type": "brotli"}, _ignore)


def test_consumer_properties_are_translated() -> None:
    assert consumer_settings({"fetch.max.wait.ms": "10", "fetch.min.bytes": "1", "max.poll.records": "7"}) == {
        "fetch.wait.max.ms": "10",
        "fetch.min.bytes": "1",
    }


@pytest.mark.parametrize(
    ("code", "retries_possible", "expected"),
    [
        (-192, True, SendStatus.UNKNOWN),  # message timed out: it may have been appended
        (-192, False, SendStatus.UNKNOWN),
        (-195, False, SendStatus.UNKNOWN),  # transport failure
        (-151, True, SendStatus.UNKNOWN),  # purged in flight
        (-152, True, SendStatus.UNKNOWN),  # purged in the queue: perhaps waiting for a retry
        (7, False, SendStatus.UNKNOWN),  # REQUEST_TIMED_OUT
        (20, False, SendStatus.UNKNOWN),  # NOT_ENOUGH_REPLICAS_AFTER_APPEND
        (19, False, SendStatus.FAILED),  # NOT_ENOUGH_REPLICAS, only attempt
        (19, True, SendStatus.UNKNOWN),  # an earlier attempt may have been appended
        (10, True, SendStatus.FAILED),  # MESSAGE_TOO_LARGE, always
        (-190, True, SendStatus.FAILED),  # unknown partition: never left
    ],
)
def test_a_send_is_failed_only_if_it_certainly_was_not_appended(
    code: int, retries_possible: bool, expected: SendStatus
) -> None:
    assert classify(code, retries_possible=retries_possible) == expected
