"""kafka-python: producer and consumer of the load, group member."""

from __future__ import annotations

from workloads.clients.kafka_python.load import (
    KafkaPythonConsumer,
    KafkaPythonProducer,
    KafkaPythonTransactionalProducer,
    check_consumer_properties,
    check_properties,
)
from workloads.clients.kafka_python.member import KafkaPythonMember

__all__ = [
    "check_consumer_properties",
    "check_properties",
    "make_consumer",
    "make_member",
    "make_producer",
    "make_transactional_producer",
]

make_producer = KafkaPythonProducer
make_transactional_producer = KafkaPythonTransactionalProducer
make_consumer = KafkaPythonConsumer
make_member = KafkaPythonMember
