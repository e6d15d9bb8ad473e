"""A consumer that is killed in the middle of its work and started again: is a record skipped?"""

import subprocess
import sys
import time

from confluent_kafka import Producer

# What your service does, as a process of its own: it can be killed by SIGKILL like a real one.
SERVICE = """
import sys
from confluent_kafka import Consumer

servers, topic, path = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": servers, "group.id": "billing", "auto.offset.reset": "earliest",
                     "enable.auto.commit": False, "session.timeout.ms": 6000})
consumer.subscribe([topic])
with open(path, "ab", buffering=0) as handled:
    while True:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            handled.write(message.value() + b"\\n")  # the work
            consumer.commit(message, asynchronous=False)  # only then: a crash repeats a record and loses none
"""


def start(cluster, path):
    return subprocess.Popen([sys.executable, "-c", SERVICE, cluster.bootstrap_servers, cluster.topic, str(path)])


def wait_until(is_so, timeout_s=60):
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.05)


def test_a_killed_consumer_skips_nothing(kafka_cluster, tmp_path):
    path = tmp_path / "handled"
    path.touch()
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers, "acks": "all"})
    for number in range(400):
        producer.produce(kafka_cluster.topic, f"invoice {number}")
    assert producer.flush(60) == 0

    service = start(kafka_cluster, path)
    wait_until(lambda: path.read_bytes().count(b"\n") >= 50)
    service.kill()  # SIGKILL: nothing is committed on the way out
    service.wait()
    service = start(kafka_cluster, path)
    try:
        kafka_cluster.wait_caught_up("billing")
    finally:
        service.kill()
        service.wait()
    assert set(kafka_cluster.values()) <= set(path.read_bytes().split(b"\n"))
