"""Apache Kafka's Java client: producer and consumer of the load over LoadClient.java. Members and copiers are JVMs with
Member.java, which the harness starts without any Python. `build.py` compiles both."""

from __future__ import annotations

from workloads.clients.java.load import check_consumer_properties, check_properties, make_consumer, make_producer

__all__ = ["check_consumer_properties", "check_properties", "make_consumer", "make_producer"]
