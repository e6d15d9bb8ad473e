"""librdkafka 5456 and 5511: send_offsets_to_transaction() outlasts its time-out when the group's coordinator has died.

    pytest -p harness.pytest_plugin examples/found/test_librdkafka_5456.py --kafka-cluster reference

fails where the client has the bug (docs/guide/found.md).
"""

import threading
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

TIMEOUT_S = 5.0  # what the call is told
PATIENCE_S = 30.0  # what it gets


def java_hash(text):
    value = 0
    for letter in text:
        value = (31 * value + ord(letter)) & 0xFFFFFFFF
    return value if value < 1 << 31 else (1 << 32) - value


def wait_for(condition, timeout_s=60):
    deadline = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert condition()


def test_the_call_keeps_its_time_out_when_the_coordinator_has_died(kafka_cluster, chaos):
    servers = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    admin = AdminClient(servers)
    consumer = Consumer({**servers, "group.id": "copiers", "enable.auto.commit": False})
    consumer.subscribe([kafka_cluster.topic])
    wait_for(lambda: consumer.poll(0.2) or consumer.assignment())
    coordinator = admin.describe_consumer_groups(["copiers"])["copiers"].result(30).coordinator.id
    Producer({**servers, "transactional.id": "first"}).init_transactions(30)  # makes the topic of transactions
    states = admin.list_topics(timeout=30).topics["__transaction_state"].partitions
    ids = (f"copier-{number}" for number in range(1000))
    elsewhere = next(name for name in ids if states[java_hash(name) % len(states)].leader != coordinator)

    producer = Producer({**servers, "transactional.id": elsewhere, "transaction.timeout.ms": 60000})
    producer.init_transactions(30)
    group, offsets = consumer.consumer_group_metadata(), [TopicPartition(kafka_cluster.topic, 0, 1)]
    producer.begin_transaction()
    producer.send_offsets_to_transaction(offsets, group, 30)  # from here on the client knows the group's coordinator
    producer.commit_transaction(30)

    took_s = []

    def send_offsets():
        began = time.monotonic()
        try:
            producer.send_offsets_to_transaction(offsets, group, TIMEOUT_S)
        except KafkaException as error:
            print(error)
        took_s.append(time.monotonic() - began)

    producer.begin_transaction()
    with chaos.inject("kill", f"broker:{coordinator}"):
        # The producer has asked for the metadata, too, and forgotten the dead broker.
        wait_for(lambda: coordinator not in producer.list_topics(timeout=30).brokers)
        call = threading.Thread(target=send_offsets, daemon=True)
        call.start()
        call.join(PATIENCE_S)
    assert took_s, f"not back after {PATIENCE_S:g} s, though it was told {TIMEOUT_S:g} s"
    print(f"took {took_s[0]:.1f} s")
    assert took_s[0] < TIMEOUT_S + 5
