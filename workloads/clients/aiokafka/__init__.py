"""aiokafka: producer and consumer of the load, group member."""

from __future__ import annotations

from workloads.clients.aiokafka.load import (
    AiokafkaConsumer,
    AiokafkaProducer,
    AiokafkaTransactionalProducer,
    check_consumer_properties,
    check_properties,
    nearest_properties,
)
from workloads.clients.aiokafka.member import AiokafkaMember

__all__ = [
    "check_consumer_properties",
    "check_properties",
    "make_consumer",
    "make_member",
    "make_producer",
    "make_transactional_producer",
    "nearest_properties",
]

make_producer = AiokafkaProducer
make_transactional_producer = AiokafkaTransactionalProducer
make_consumer = AiokafkaConsumer
make_member = AiokafkaMember
