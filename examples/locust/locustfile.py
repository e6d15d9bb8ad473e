"""Orders are written and read back, with kafka-python: a User of one's own beside the load of a run.

    harness chaos leader-loss --set workload.locust.file=examples/locust/locustfile.py --set workload.locust.users=5

The report shows each request over the time of the cell, with the faults. The same file runs with Locust alone:
`KAFKA_BOOTSTRAP_SERVERS=... KAFKA_TOPIC=orders locust -f locustfile.py`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic
from locust import User, constant_pacing, events, task

SERVERS = os.environ["KAFKA_BOOTSTRAP_SERVERS"].split(",")
TOPIC = f"{os.environ['KAFKA_TOPIC']}-orders"  # the run's own topic keeps the records of the run alone


@events.test_start.add_listener
def make_topic(**_told: object) -> None:
    admin = KafkaAdminClient(bootstrap_servers=SERVERS)
    admin.create_topics([NewTopic(TOPIC, num_partitions=1, replication_factor=-1)])
    admin.close()


class Shop(User):
    wait_time = constant_pacing(0.1)

    def on_start(self) -> None:
        self.producer = KafkaProducer(bootstrap_servers=SERVERS, acks="all", request_timeout_ms=5_000)
        self.consumer = KafkaConsumer(TOPIC, bootstrap_servers=SERVERS, auto_offset_reset="earliest")

    @task(3)
    def order(self) -> None:
        self.told("send", "order", lambda: self.producer.send(TOPIC, b"one espresso").get(timeout=10))

    @task(1)
    def read(self) -> None:
        self.told("poll", "orders", lambda: self.consumer.poll(timeout_ms=500))

    def on_stop(self) -> None:
        self.producer.close(timeout=2)
        self.consumer.close()

    def told(self, kind: str, name: str, call: Callable[[], Any]) -> None:
        """What Locust's own HTTP client does for each request."""
        began, failure = time.perf_counter(), None
        try:
            call()
        except Exception as error:  # whatever it is, it is a request that failed
            failure = error
        took_ms = (time.perf_counter() - began) * 1_000
        self.environment.events.request.fire(
            request_type=kind, name=name, response_time=took_ms, response_length=0, exception=failure, context={}
        )
