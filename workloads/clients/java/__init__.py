"""Apache Kafka's Java client. One Java program serves producers and consumers of the load, members and copiers.

Client.java names its modes, `build.py` compiles it. Members and copiers are JVMs that the harness starts without any
Python.
"""

from __future__ import annotations

from workloads.clients.java.load import (
    JavaConsumer,
    JavaProducer,
    JavaTransactionalProducer,
    check_consumer_properties,
    check_properties,
)

__all__ = [
    "check_consumer_properties",
    "check_properties",
    "make_consumer",
    "make_producer",
    "make_transactional_producer",
]

make_producer = JavaProducer
make_transactional_producer = JavaTransactionalProducer
make_consumer = JavaConsumer
