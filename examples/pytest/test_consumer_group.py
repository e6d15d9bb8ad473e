"""A consumer group while a broker is frozen: every record of the log is handled, and "not yet" is no loss."""

import threading

from confluent_kafka import Consumer, Producer


def consume(cluster, group, handled, stop):
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest",
         "enable.auto.commit": False}
    )  # fmt: skip
    consumer.subscribe([cluster.topic])
    while not stop.is_set():
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            handled.append(message.value())
            consumer.commit(message, asynchronous=True)  # after the work: at least once
    consumer.close()


def test_a_group_handles_every_record_although_a_leader_freezes(kafka_cluster, chaos):
    handled, stop = [], threading.Event()
    members = [threading.Thread(target=consume, args=(kafka_cluster, "billing", handled, stop)) for _ in range(2)]
    for member in members:
        member.start()
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers, "acks": "all"})
    try:
        for number in range(300):
            producer.produce(kafka_cluster.topic, f"invoice {number}")
        with chaos.inject("pause", "leader"):
            for number in range(300, 500):
                producer.produce(kafka_cluster.topic, f"invoice {number}")
            producer.poll(2)
        assert producer.flush(60) == 0
        kafka_cluster.wait_caught_up("billing")  # without it "not handled" may only mean "not read yet"
    finally:
        stop.set()
        for member in members:
            member.join()
    assert set(kafka_cluster.values()) <= set(handled)  # once or more: a rebalance may deliver again
