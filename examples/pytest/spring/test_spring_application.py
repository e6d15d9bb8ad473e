"""A Spring Boot application with Spring Kafka loses its leader. `mvn package`, then `pytest` in this directory."""

import os
import subprocess
import time
from pathlib import Path

import pytest

PROGRAM = ["java", "-jar", Path(__file__).parent / "target" / "orders.jar"]


@pytest.mark.chaos("leader-loss")
def test_each_acknowledged_order_is_in_the_log_and_was_read(kafka_cluster, chaos, tmp_path):
    # Spring takes a property from the variable of its name: spring.kafka.bootstrap-servers, orders.topic.
    where = {"SPRING_KAFKA_BOOTSTRAP_SERVERS": kafka_cluster.bootstrap_servers, "ORDERS_TOPIC": kafka_cluster.topic}
    told = tmp_path / "told"

    def orders(what):
        lines = told.read_bytes().splitlines()
        return [line.split()[1] for line in lines if line.startswith(what) and len(line.split()) == 2]

    def wait_for(condition, what):
        deadline = time.monotonic() + 120
        while not condition():
            assert application.poll() is None, "the application ended"
            assert time.monotonic() < deadline, what
            time.sleep(0.1)

    with (
        told.open("wb") as file,
        subprocess.Popen(PROGRAM, env={**os.environ, **where}, stdin=subprocess.PIPE, stdout=file) as application,
    ):
        try:
            wait_for(lambda: orders(b"read"), "nothing was read")
            chaos.begin()
            chaos.finish()  # the leader was cut off, killed, and is back in sync
            wait_for(lambda: set(orders(b"acknowledged")) <= set(orders(b"read")), "acknowledged orders were not read")
            application.stdin.close()  # it ends by itself when it has its last answers
            assert application.wait(120) == 0
        finally:
            application.kill()
    kafka_cluster.assert_none_lost(orders(b"acknowledged"))
