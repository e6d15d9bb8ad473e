"""Clients of other libraries on each secured listener: one record goes to a topic, and comes back."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from typing import Any

import aiokafka
import kafka
import pytest
from confluent_helper import QUIET
from confluent_kafka import Consumer, Producer, TopicPartition
from security_helper import USERS, SecuredCluster

pytestmark = pytest.mark.slow
WAYS = [
    ("SSL", ""),
    ("MTLS", ""),
    *[(listener, name) for listener in ("SASL_SSL", "SASL_PLAINTEXT") for name in ("PLAIN", "SCRAM-SHA-256")],
    ("SASL_SSL", "SCRAM-SHA-512"),
]
VALUE = b"secured"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    with SecuredCluster(tmp_path_factory.mktemp("clients")) as running:
        running.make_scram_users()
        yield running


def protocol(listener: str) -> str:
    return "SSL" if listener == "MTLS" else listener


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_librdkafka(cluster: SecuredCluster, listener: str, mechanism: str) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap(listener), **QUIET}
    settings |= {"security.protocol": protocol(listener), "ssl.ca.location": str(cluster.files.authority)}
    if listener == "MTLS":
        settings |= {name: str(cluster.files.alice) for name in ("ssl.certificate.location", "ssl.key.location")}
    if mechanism:
        settings |= {"sasl.mechanism": mechanism, "sasl.username": "alice", "sasl.password": USERS["alice"]}
    topic, metadata = f"rd-{listener}-{mechanism}", []
    producer = Producer(settings)
    producer.produce(topic, VALUE, on_delivery=lambda error, message: metadata.append((error, message.partition())))
    assert producer.flush(100) == 0
    ((error, partition),) = metadata
    assert error is None
    consumer = Consumer({**settings, "group.id": "rd"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found = consumer.poll(100)
    consumer.close()
    assert found is not None
    assert (found.error(), found.value()) == (None, VALUE)


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_kafka_python(cluster: SecuredCluster, listener: str, mechanism: str) -> None:
    settings = python_settings(cluster, listener, mechanism)
    topic = f"kp-{listener}-{mechanism}"
    producer = kafka.KafkaProducer(**settings)
    sent = producer.send(topic, VALUE).get(100)
    producer.close()
    consumer = kafka.KafkaConsumer(**settings, consumer_timeout_ms=100_000)
    place = kafka.TopicPartition(topic, sent.partition)
    consumer.assign([place])
    consumer.seek(place, 0)
    assert next(consumer).value == VALUE
    consumer.close()


@pytest.mark.parametrize(("listener", "mechanism"), WAYS)
def test_aiokafka(cluster: SecuredCluster, listener: str, mechanism: str) -> None:
    async def run() -> None:
        settings = python_settings(cluster, listener, mechanism)
        topic = f"ai-{listener}-{mechanism}"
        producer = aiokafka.AIOKafkaProducer(**settings)
        await producer.start()
        sent = await producer.send_and_wait(topic, VALUE)
        await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(**settings)
        await consumer.start()
        place = aiokafka.TopicPartition(topic, sent.partition)
        consumer.assign([place])
        consumer.seek(place, 0)
        found = await consumer.getone()
        await consumer.stop()
        assert found.value == VALUE

    asyncio.run(asyncio.wait_for(run(), 100))


def python_settings(cluster: SecuredCluster, listener: str, mechanism: str) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap(listener),
        "security_protocol": protocol(listener),
    }
    if protocol(listener).endswith("SSL"):
        settings["ssl_context"] = cluster.client_context(with_certificate=listener == "MTLS")
        assert settings["ssl_context"].verify_mode is ssl.CERT_REQUIRED
    if mechanism:
        settings |= {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "alice",
            "sasl_plain_password": USERS["alice"],
        }
    return settings
