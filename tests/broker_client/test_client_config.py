"""Settings: defaults of Kafka 4.x, ranges, misspellings, and the conflicts that Java's client knows."""

from __future__ import annotations

import pytest

from broker.client.core.config import as_properties, parse_admin, parse_producer
from broker.client.core.errors import ConfigurationError

BOOT = {"bootstrap.servers": "127.0.0.1:9092"}


def test_producer_defaults_are_those_of_kafka_4() -> None:
    properties = as_properties(parse_producer(BOOT))
    expected = {
        "acks": "all",
        "enable.idempotence": "true",
        "batch.size": "16384",
        "linger.ms": "5",
        "buffer.memory": "33554432",
        "max.block.ms": "60000",
        "max.request.size": "1048576",
        "max.in.flight.requests.per.connection": "5",
        "retries": "2147483647",
        "retry.backoff.ms": "100",
        "retry.backoff.max.ms": "1000",
        "delivery.timeout.ms": "120000",
        "request.timeout.ms": "30000",
        "compression.type": "none",
        "send.buffer.bytes": "131072",
        "receive.buffer.bytes": "32768",
        "metadata.max.age.ms": "300000",
    }
    assert expected == {name: properties[name] for name in expected}


def test_text_and_typed_values_mean_the_same() -> None:
    text = parse_producer({**BOOT, "linger.ms": "7", "enable.idempotence": "false", "acks": "1"})
    typed = parse_producer({**BOOT, "linger.ms": 7, "enable.idempotence": False, "acks": 1})
    assert text == typed
    assert text.acks_code == 1


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("linger.msec", "linger.ms"),
        ("batch_size", "batch.size"),
        ("max.in.flight", "max.in.flight.requests"),
        ("ack", "acks"),
    ],
)
def test_an_unknown_property_names_the_nearest_right_one(name: str, nearest: str) -> None:
    with pytest.raises(ConfigurationError, match=f"unknown property '{name}', nearest is '{nearest}"):
        parse_producer({**BOOT, name: "1"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("linger.ms", "-1"),
        ("linger.ms", "soon"),
        ("linger.ms", 1.5),
        ("acks", "2"),
        ("compression.type", "brotli"),
        ("enable.idempotence", "yes"),
        ("max.in.flight.requests.per.connection", 0),
        ("security.protocol", "TLS"),
    ],
)
def test_a_value_out_of_range_is_an_error_that_names_the_property(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=name):
        parse_producer({**BOOT, name: value})


@pytest.mark.parametrize("conflict", [{"acks": "1"}, {"retries": "0"}, {"max.in.flight.requests.per.connection": "6"}])
def test_idempotence_conflicts_are_errors_only_when_it_was_asked_for(conflict: dict[str, str]) -> None:
    assert not parse_producer({**BOOT, **conflict}).enable_idempotence
    with pytest.raises(ConfigurationError, match=next(iter(conflict))):
        parse_producer({**BOOT, **conflict, "enable.idempotence": "true"})


def test_delivery_timeout_must_hold_linger_and_one_request() -> None:
    with pytest.raises(ConfigurationError, match=r"delivery\.timeout\.ms"):
        parse_producer({**BOOT, "delivery.timeout.ms": "100", "request.timeout.ms": "100", "linger.ms": "1"})
    raised = parse_producer({**BOOT, "request.timeout.ms": "200000"})
    assert raised.delivery_timeout_ms == 200005


def test_transactions_need_idempotence_and_two_phase_commit_is_refused() -> None:
    assert parse_producer({**BOOT, "transactional.id": "t"}).transaction_timeout_ms == 60_000
    for name, value in {"enable.idempotence": "false", "acks": "1", "retries": 0}.items():
        with pytest.raises(ConfigurationError, match=r"transactional\.id: needs enable\.idempotence=true"):
            parse_producer({**BOOT, "transactional.id": "t", name: value})
    with pytest.raises(ConfigurationError, match="KIP-939"):
        parse_producer({**BOOT, "transaction.two.phase.commit.enable": "true"})


@pytest.mark.parametrize("servers", ["", "localhost", "host:port"])
def test_bootstrap_servers_need_host_and_port(servers: str) -> None:
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers"):
        parse_admin({"bootstrap.servers": servers})
