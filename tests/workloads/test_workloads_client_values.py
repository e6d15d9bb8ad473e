"""Every client of ours refuses, before it is connected, the values that cannot be: by name, with what is expected."""

from __future__ import annotations

import re

import pytest

from workloads.clients import BUILTIN, check_consumer_properties, check_properties
from workloads.clients.protocol import PropertyError

CLIENTS = tuple(BUILTIN)
IN_FLIGHT = "max.in.flight.requests.per.connection"
GOOD = {
    "acks": "all",
    "linger.ms": "5",
    "batch.size": "16384",
    "compression.type": "gzip",
    "request.timeout.ms": "20000",
}


@pytest.mark.parametrize("client", CLIENTS)
def test_settings_that_work_are_taken(client: str) -> None:
    check_properties(client, GOOD)
    check_consumer_properties(client, {"fetch.min.bytes": "1", "isolation.level": "read_committed"}, is_member=True)
    check_consumer_properties(client, {"max.poll.records": "100"}, is_member=False)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("linger.ms", "five", "got 'five'|linger.ms|Invalid value"),
        ("linger.ms", "-1", "-1"),
        ("batch.size", "16KB", "expected a whole number, got '16KB'; it takes a number alone: 16384"),
        ("batch.size", "-5", "-5"),
        ("request.timeout.ms", "30s", "it takes a number alone: 30000"),
        ("acks", "2", "expected one of all, -1, 0, 1, got '2'"),
        ("acks", "quorum", "expected one of all, -1, 0, 1"),
        ("enable.idempotence", "yes", "expected true or false"),
        ("compression.type", "zst", "expected one of none, gzip, snappy, lz4, zstd"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_what_can(client: str, name: str, value: str, told: str) -> None:
    with pytest.raises(PropertyError, match=f"client {client} cannot set {re.escape(name)}: .*({told})") as raised:
        check_properties(client, {name: value})
    assert raised.value.name == name


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", ["linger", "batch_size", "acs", "lingerms"])
def test_a_misspelt_name_is_refused_with_the_nearest(client: str, name: str) -> None:
    with pytest.raises(PropertyError, match=r"linger\.ms|batch\.size|acks") as raised:
        check_properties(client, {name: "5"})
    assert raised.value.name == name


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    "wrong",
    [
        {"acks": "1", "enable.idempotence": "true"},
        {"acks": "0", "enable.idempotence": "true"},
        {IN_FLIGHT: "6", "enable.idempotence": "true"},
        {"retries": "0", "enable.idempotence": "true"},
    ],
)
def test_values_that_contradict_one_another_are_refused(client: str, wrong: dict[str, str]) -> None:
    with pytest.raises(PropertyError) as raised:
        check_properties(client, wrong)
    assert raised.value.name in wrong


@pytest.mark.parametrize("client", ["reference", "java", "kafka_python"])
def test_a_delivery_timeout_below_one_request_is_refused(client: str) -> None:
    with pytest.raises(PropertyError, match=r"linger\.ms \+ request\.timeout\.ms"):
        check_properties(client, {"delivery.timeout.ms": "100", "request.timeout.ms": "1000"})


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("name", "value"), [("fetch.min.bytes", "1KB"), ("isolation.level", "committed"), ("fetch.min.byte", "1")]
)
def test_a_readers_properties_are_checked_too(client: str, name: str, value: str) -> None:
    with pytest.raises(PropertyError) as raised:
        check_consumer_properties(client, {name: value}, is_member=True)
    assert raised.value.name == name


def test_librdkafka_takes_a_part_of_a_millisecond() -> None:
    check_properties("confluent", {"linger.ms": "0.5"})
    with pytest.raises(PropertyError):
        check_properties("reference", {"linger.ms": "0.5"})
