"""kafka-python: producer and consumer of the load, group member."""

from __future__ import annotations

from workloads.clients.kafka_python.load import (
    check_consumer_properties,
    check_properties,
    make_consumer,
    make_producer,
    make_transactional_producer,
)
from workloads.clients.kafka_python.member import make_member

__all__ = [
    "check_consumer_properties",
    "check_properties",
    "make_consumer",
    "make_member",
    "make_producer",
    "make_transactional_producer",
]
