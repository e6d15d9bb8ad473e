"""librdkafka 5456 and 5511: send_offsets_to_transaction() outlasts its time-out when the group's coordinator has died.

    pytest -p harness.pytest_plugin examples/found/test_librdkafka_5456.py --kafka-cluster reference

fails where the client has the bug (docs/found.md).
"""

import threading
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

TIMEOUT_S = 5.0  # what the call is told
PATIENCE_S = 20.0  # what it gets


def test_the_call_keeps_its_time_out_when_the_coordinator_has_died(kafka_cluster, chaos):
    servers = {"bootstrap.servers": kafka_cluster.bootstrap_servers}
    consumer = Consumer({**servers, "group.id": "copiers", "enable.auto.commit": False})
    consumer.subscribe([kafka_cluster.topic])
    deadline = time.monotonic() + 60
    while not consumer.assignment() and time.monotonic() < deadline:
        consumer.poll(0.2)
    admin = AdminClient(servers)
    coordinator = admin.describe_consumer_groups(["copiers"])["copiers"].result(30).coordinator.id

    producer = Producer({**servers, "transactional.id": "copier", "transaction.timeout.ms": 60000})
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
        time.sleep(3)  # a new coordinator is elected, and the dead broker is no longer in the metadata
        call = threading.Thread(target=send_offsets, daemon=True)
        call.start()
        call.join(PATIENCE_S)
    print("took", took_s)
    assert took_s, f"not back after {PATIENCE_S:g} s, though it was told {TIMEOUT_S:g} s"
    assert took_s[0] < TIMEOUT_S + 5
