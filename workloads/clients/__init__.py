"""Client adapters by name. A library is imported only when a plan asks for it."""

from __future__ import annotations

from collections.abc import Mapping

from workloads.clients.protocol import ConsumerClient, OutcomeSink, ProducerClient


def make_producer(
    client: str, bootstrap_servers: str, topic: str, properties: Mapping[str, str], sink: OutcomeSink
) -> ProducerClient:
    """PropertyError if the client cannot set a property; nothing is connected yet."""
    if client == "confluent":
        from workloads.clients.confluent import ConfluentProducer

        return ConfluentProducer(bootstrap_servers, topic, properties, sink)
    if client == "reference":
        from workloads.clients.reference import ReferenceProducer

        return ReferenceProducer(bootstrap_servers, topic, properties, sink)
    raise ValueError(f"unknown client {client}")


def make_consumer(client: str, bootstrap_servers: str, topic: str, properties: Mapping[str, str]) -> ConsumerClient:
    if client == "confluent":
        from workloads.clients.confluent import ConfluentConsumer

        return ConfluentConsumer(bootstrap_servers, topic, properties)
    if client == "reference":
        from workloads.clients.reference import ReferenceConsumer

        return ReferenceConsumer(bootstrap_servers, topic, properties)
    raise ValueError(f"unknown client {client}")
