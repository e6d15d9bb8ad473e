"""Kafka's property names reach each client, what it cannot set is refused by name, and outcomes are not overstated."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from runlog.streams.schema import ABSENT, SendStatus
from workloads.clients import client_names, make_consumer, make_producer
from workloads.clients.aiokafka import load as aiokafka
from workloads.clients.confluent.load import consumer_settings, producer_settings
from workloads.clients.kafka_python import load as kafka_python
from workloads.clients.protocol import ClientError, ClientSetup, PropertyError

KNOBS = {
    "acks": "all", "batch.size": "131072", "linger.ms": "5", "compression.type": "lz4", "buffer.memory": "33554432",
    "max.in.flight.requests.per.connection": "5", "enable.idempotence": "true", "retries": "2147483647",
    "retry.backoff.ms": "100", "delivery.timeout.ms": "30000", "request.timeout.ms": "2000", "client.id": "x",
    "metadata.max.age.ms": "60000", "max.request.size": "2000000", "send.buffer.bytes": "131072",
}  # fmt: skip


JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="se\\"cret";'
SINK: Any = SimpleNamespace(one=None, many=None)  # nothing is sent
# What each client cannot set, with a word of the reason or of the nearest right thing.
REFUSED = {
    "confluent": [("max.block.ms", "equivalent"), ("linger.mss", "did you mean linger.ms")],
    "reference": [("max.block.ms", "load generator"), ("interceptor.classes", "Java classes cannot be loaded")],
    "kafka_python": [
        ("buffer.memory", "leave it out"), ("linger_ms", "did you mean linger.ms"), ("linger.ms", "whole|invalid"),
    ],
    "aiokafka": [
        ("max.in.flight.requests.per.connection", "set it to 1"), ("delivery.timeout.ms", "request.timeout.ms"),
        ("buffer.memory", "batch.size"), ("retries", "request.timeout.ms"), ("batch.sizes", "did you mean batch.size"),
    ],
}  # fmt: skip


def _setup(properties: Mapping[str, str]) -> ClientSetup:
    return ClientSetup(bootstrap_servers="127.0.0.1:1", topics=("t",), properties=properties)


def test_every_knob_is_accepted_by_librdkafka_itself() -> None:
    producer = make_producer("confluent", _setup(KNOBS), SINK)
    effective = producer.effective()
    assert effective["queue.buffering.max.kbytes"] == "32768"
    assert effective["message.max.bytes"] == "2000000"
    assert effective["socket.send.buffer.bytes"] == "131072"
    assert effective["linger.ms"] == "5"
    producer.close(0.1)


def test_kafkas_request_timeout_is_both_of_librdkafkas() -> None:
    settings = producer_settings({"request.timeout.ms": "1500"})
    assert (settings["request.timeout.ms"], settings["socket.timeout.ms"]) == ("1500", "1500")


@pytest.mark.parametrize(("client", "name", "hint"), [(c, n, h) for c, each in REFUSED.items() for n, h in each])
def test_a_property_that_a_client_cannot_set_is_an_error_with_a_way_out(client: str, name: str, hint: str) -> None:
    with pytest.raises(PropertyError, match=f"client {client} cannot set {name}: .*({hint})"):
        make_producer(client, _setup({name: "x"}), SINK)


@pytest.mark.parametrize("client", ["confluent", "reference", "kafka_python", "aiokafka"])
def test_a_consumer_property_that_a_client_cannot_set_is_an_error(client: str) -> None:
    for name in ("batch.size", "fetch.min.byte", "auto.offset.reset.x"):
        with pytest.raises(PropertyError, match=rf"client {client} cannot set {name}"):
            make_consumer(client, _setup({name: "1"}))


def test_the_five_knobs_become_arguments_of_the_python_clients() -> None:
    knobs = {
        "acks": "all", "batch.size": "131072", "linger.ms": "5", "compression.type": "none",
        "max.in.flight.requests.per.connection": "1", "enable.idempotence": "true",
    }  # fmt: skip
    assert kafka_python.LIBRARY.producer_arguments(knobs) == {
        "acks": "all", "batch_size": 131072, "linger_ms": 5, "compression_type": None,
        "max_in_flight_requests_per_connection": 1, "enable_idempotence": True,
    }  # fmt: skip
    assert aiokafka.LIBRARY.producer_arguments(knobs) == {
        "acks": "all", "max_batch_size": 131072, "linger_ms": 5, "compression_type": None, "enable_idempotence": True,
    }  # fmt: skip
    for module in (kafka_python, aiokafka):
        with pytest.raises(PropertyError, match=r"enable.idempotence: .*acks=all"):
            module.LIBRARY.producer_arguments({**knobs, "acks": "1"})


@pytest.mark.parametrize("client", ["aiokafka", "kafka_python"])
def test_the_settings_in_force_are_told_as_kafka_writes_them(client: str) -> None:
    given = {"acks": "0", "linger.ms": "0", "compression.type": "none", "enable.idempotence": "false"}
    effective = make_producer(client, _setup(given), SINK).effective()
    assert given == {name: effective[name] for name in given}


@pytest.mark.parametrize("module", [aiokafka, kafka_python])
def test_security_becomes_arguments_of_the_python_clients(module: Any, tmp_path: Path) -> None:
    properties = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": JAAS,
                  "ssl.endpoint.identification.algorithm": "", "acks": "all"}  # fmt: skip
    arguments = module.LIBRARY.producer_arguments(properties)
    context = arguments.pop("ssl_context")
    assert isinstance(context, ssl.SSLContext)
    assert (context.check_hostname, context.verify_mode) == (False, ssl.CERT_REQUIRED)
    assert arguments == {
        "acks": "all", "security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "alice", "sasl_plain_password": 'se"cret',
    }  # fmt: skip
    assert module.LIBRARY.producer_arguments({"security.protocol": "SSL"})["ssl_context"].check_hostname
    no_store = str(tmp_path / "none.pem")
    refused = {
        "sasl.mechanism": ({"sasl.mechanism": "GSSAPI"}, "SCRAM-SHA-512"),
        "sasl.jaas.config": ({"sasl.jaas.config": "x required;"}, "username="),
        "security.protocol": ({"security.protocol": "TLS"}, "expected one of"),
        "ssl.truststore.location": (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": no_store},
            "No such file",
        ),
        "ssl.keystore.type": ({"ssl.keystore.location": no_store}, "type=PEM"),
        "ssl.engine.factory.class": ({"ssl.engine.factory.class": "x"}, "no equivalent"),
    }
    for name, (change, hint) in refused.items():
        with pytest.raises(PropertyError, match=hint) as raised:
            module.LIBRARY.producer_arguments({**properties, **change})
        assert name in str(raised.value)
    with pytest.raises(PropertyError, match=r"no effect with security\.protocol=PLAINTEXT"):
        module.LIBRARY.producer_arguments({"sasl.mechanism": "PLAIN"})


def test_a_client_that_does_not_exist_is_told_with_the_nearest() -> None:
    assert client_names()[:5] == ("reference", "confluent", "aiokafka", "kafka_python", "java")
    with pytest.raises(ClientError, match=r"no client 'kafka-python'.*did you mean kafka_python"):
        make_producer("kafka-python", _setup({}), SINK)


def test_a_value_that_librdkafka_refuses_is_named() -> None:
    with pytest.raises(PropertyError, match=r"compression\.type"):
        make_producer("confluent", _setup({"compression.type": "brotli"}), SINK)


def test_consumer_properties_are_translated() -> None:
    assert consumer_settings({"fetch.max.wait.ms": "10", "fetch.min.bytes": "1", "max.poll.records": "7"}) == {
        "fetch.wait.max.ms": "10",
        "fetch.min.bytes": "1",
    }


def test_confluent_tells_of_a_batch_that_the_broker_had_already_without_an_offset() -> None:
    """librdkafka calls a repeated sequence after a lost answer a success, and has no offset for it: it gives None."""
    told: list[tuple[int, ...]] = []
    sink: Any = SimpleNamespace(one=lambda *outcome: told.append(outcome))
    setup = ClientSetup(bootstrap_servers="127.0.0.1:1", topics=("t",), properties={"acks": "all"})
    producer: Any = make_producer("confluent", setup, sink)
    message = SimpleNamespace(partition=lambda: 3, offset=lambda: None, timestamp=lambda: (1, 99))
    nowhere = SimpleNamespace(partition=lambda: None, offset=lambda: None, timestamp=lambda: (0, 0))
    producer._delivered(7, None, message)
    producer._delivered(8, KafkaError(KafkaError._MSG_TIMED_OUT), nowhere)
    producer.close(0)
    assert told[0] == (7, SendStatus.ACKED, 0, 3, ABSENT, 99)
    assert told[1][:1] + told[1][3:] == (8, ABSENT, ABSENT)
