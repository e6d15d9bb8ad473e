"""A producer in Java (kafka-clients) loses its leader. `KAFKA_JARS=DIR pytest` in this directory; DIR has the jars."""

import os
import subprocess
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def program():
    return ["java", "-cp", f"{os.environ['KAFKA_JARS']}/*", HERE / "Orders.java"]


@pytest.mark.chaos("leader-loss")
def test_no_acknowledged_order_is_lost(kafka_cluster, chaos, program, tmp_path):
    where = {"KAFKA_BOOTSTRAP_SERVERS": kafka_cluster.bootstrap_servers, "KAFKA_TOPIC": kafka_cluster.topic}
    told = tmp_path / "acknowledged"
    with (
        told.open("wb") as file,
        subprocess.Popen(program, env={**os.environ, **where}, stdin=subprocess.PIPE, stdout=file) as producer,
    ):
        try:
            deadline = time.monotonic() + 60
            while not told.stat().st_size:  # until the first one is acknowledged
                assert producer.poll() is None, "the program ended"
                assert time.monotonic() < deadline, "nothing was acknowledged"
                time.sleep(0.05)
            chaos.begin()
            chaos.finish()  # the leader was cut off, killed, and is back in sync
            producer.stdin.close()  # the program ends by itself when it has its last answers
            assert producer.wait(60) == 0
        finally:
            producer.kill()
    kafka_cluster.assert_none_lost(told.read_bytes().splitlines())
