"""Helper process: librdkafka's mock cluster of three brokers. Prints its addresses, then waits for stdin to close."""

from __future__ import annotations

import sys

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic


def main() -> None:
    topic, partitions = sys.argv[1], int(sys.argv[2])
    producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 3})
    brokers = producer.list_topics(timeout=10).brokers.values()
    addresses = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    admin = AdminClient({"bootstrap.servers": addresses})
    admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(10)
    print(addresses, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
