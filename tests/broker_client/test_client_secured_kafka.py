"""The reference client against Apache Kafka's own TLS and SASL: every mechanism, renewed sessions, refusals."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from broker.door.clients import Admin, AuthenticationError, Consumer, NewTopic, Producer
from harness.clusters.base import Address
from harness.clusters.requests.probe import AuthenticationFailed, BrokerProbe
from harness.clusters.security import read_properties, read_security
from tests.harness.secured_kafka import SecuredKafka

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.kafka]
SESSION_MS = 1500


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    running = SecuredKafka(tmp_path_factory.mktemp("secured"), brokers=1, session_ms=SESSION_MS)
    try:
        running.start()
        yield running
    finally:
        running.stop()


def properties(
    kafka: SecuredKafka, protocol: str, mechanism: str = "PLAIN", *, password: str | None = None
) -> dict[str, str]:
    path = kafka.client_config(protocol, mechanism, password=password)
    return {**read_properties(path), "bootstrap.servers": kafka.bootstrap(protocol)}


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [("SSL", "PLAIN"), ("SASL_PLAINTEXT", "PLAIN"), ("SASL_SSL", "SCRAM-SHA-256"), ("SASL_PLAINTEXT", "SCRAM-SHA-512"),
     ("SASL_SSL", "OAUTHBEARER")],
)  # fmt: skip
def test_records_come_and_go_while_sessions_are_renewed(kafka: SecuredKafka, protocol: str, mechanism: str) -> None:
    given = properties(kafka, protocol, mechanism)
    topic = f"{protocol}-{mechanism}".lower()
    with Admin(given) as admin:
        admin.create_topics([NewTopic(name=topic, partitions=1, replication_factor=1)])
    until_s = time.monotonic() + 3 * SESSION_MS / 1000
    futures, seen = [], 0
    reading = {**given, "group.id": topic, "auto.offset.reset": "earliest"}
    with Producer({**given, "linger.ms": "0"}) as producer, Consumer(reading) as consumer:
        consumer.subscribe([topic])
        while time.monotonic() < until_s:
            futures.append(producer.send(topic, b"x" * 100))
            seen += len(consumer.poll(20))
        for future in futures:
            future.get(60)
        deadline_s = time.monotonic() + 60
        while seen < len(futures):
            assert time.monotonic() < deadline_s
            seen += len(consumer.poll(500))
    assert seen == len(futures)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_an_authentication_error_for_client_and_probe(kafka: SecuredKafka, mechanism: str) -> None:
    with Admin(properties(kafka, "SASL_PLAINTEXT", mechanism, password="another")) as admin:
        with pytest.raises(AuthenticationError, match="SASL_AUTHENTICATION_FAILED"):
            admin.describe_cluster()
    path = kafka.client_config("SASL_PLAINTEXT", mechanism, password="another")
    host, _, port = kafka.bootstrap("SASL_PLAINTEXT").rpartition(":")
    address = Address(host=host, port=int(port), security=read_security(path, kafka.directory))
    with BrokerProbe(address) as probe, pytest.raises(AuthenticationFailed, match="SASL_AUTHENTICATION_FAILED"):
        probe.metadata(None)


def test_sasl_on_a_listener_without_it_is_told(kafka: SecuredKafka) -> None:
    given = {**properties(kafka, "SASL_PLAINTEXT"), "bootstrap.servers": kafka.bootstrap("PLAINTEXT")}
    with Admin(given) as admin, pytest.raises(AuthenticationError, match="PLAIN: "):
        admin.describe_cluster()
