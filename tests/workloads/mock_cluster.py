"""Helper process: librdkafka's mock cluster of three brokers with one topic of four partitions.

Prints the brokers' addresses, then waits for stdin to close.
"""

from __future__ import annotations

import sys

from confluent_kafka import Producer


def main() -> None:
    cluster = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 3})
    brokers = cluster.list_topics(timeout=60).brokers.values()
    cluster.list_topics(sys.argv[1], timeout=60)  # asking for a topic makes it
    print(",".join(f"{broker.host}:{broker.port}" for broker in brokers), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
