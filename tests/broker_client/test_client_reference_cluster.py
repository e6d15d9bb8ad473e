"""The client against real processes of our own brokers: admin, every codec, a killed leader, sequence checks."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from broker.client.core.batch import RecordMetadata
from broker.door.clients import Admin, Consumer, KafkaError, NewTopic, Producer, TopicPartition
from broker.door.questions import settings_of
from broker.wire.records import decode_records
from tests.broker_node.cluster_helper import Cluster, make_topics
from tests.patience import wait_until
from tests.raw_log import read_batches

pytestmark = pytest.mark.slow

FAST = {
    "replica.lag.time.max.ms": 1500,
    "broker.session.timeout.ms": 1500,
    "broker.heartbeat.interval.ms": 200,
    "min.insync.replicas": 2,
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("client"), settings=FAST) as started:
        yield started


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": cluster.bootstrap(), "default.api.timeout.ms": 30_000}) as opened:
        yield opened


def all_values(cluster: Cluster, topic: str, partitions: int) -> list[bytes | None]:
    return [
        record[3]
        for index in range(partitions)
        for batch in read_batches(cluster.bootstrap(), TopicPartition(topic, index))
        for record in decode_records(batch)
    ]


def leaders_of(admin: Admin, topic: str) -> list[tuple[int, int]]:
    """(leader, its epoch) of each partition; empty while one has none."""
    partitions = admin.describe_topics([topic])[topic].partitions
    found = [(each.leader, each.leader_epoch) for each in partitions if each.leader in each.isr]
    return found if len(found) == len(partitions) else []


def test_the_admin_creates_describes_and_deletes_topics(cluster: Cluster, admin: Admin) -> None:
    make_topics(admin, NewTopic(name="made", partitions=3, replication_factor=3, config={"retention.ms": "60000"}))
    topic = admin.describe_topics(["made"])["made"]
    assert [each.partition for each in topic.partitions] == [0, 1, 2]
    assert all(sorted(each.replicas) == [1, 2, 3] for each in topic.partitions)
    wait_until(lambda: leaders_of(admin, "made"), "leaders: a busy host fences brokers for a moment")
    assert admin.ask(settings_of("topic", "made"))["retention.ms"].value == "60000"
    assert admin.ask(settings_of("broker", "1"), 1)["min.insync.replicas"].value == "2"
    wait_until(lambda: sorted(each.broker_id for each in admin.describe_cluster().brokers) == [1, 2, 3], "all brokers")
    with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topics([NewTopic(name="made", partitions=1, replication_factor=1)])
    admin.delete_topics(["made"])
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        admin.delete_topics(["made"])


def test_a_killed_leader_costs_an_idempotent_producer_nothing(cluster: Cluster, admin: Admin) -> None:
    make_topics(admin, NewTopic(name="killed", partitions=1, replication_factor=3))
    partition = TopicPartition("killed", 0)
    wait_until(lambda: leaders_of(admin, "killed"), "a leader")
    before = admin.describe_topics(["killed"])["killed"].partitions[0]
    acked: list[RecordMetadata] = []
    errors: list[KafkaError] = []

    def on_delivery(place: RecordMetadata | None, error: KafkaError | None) -> None:
        acked.append(place) if place is not None else errors.append(error)  # type: ignore[arg-type]  # one of the two

    properties = {"bootstrap.servers": cluster.bootstrap(), "request.timeout.ms": 3000, "linger.ms": 1}
    polled: list[bytes | None] = []
    stop = threading.Event()

    def consume() -> None:
        with Consumer({"bootstrap.servers": cluster.bootstrap(), "auto.offset.reset": "earliest"}) as consumer:
            consumer.assign([partition])
            while not stop.is_set():
                polled.extend(record.value for record in consumer.poll(100))

    reader = threading.Thread(target=consume)
    reader.start()
    sent = 0
    try:
        with Producer(properties) as producer:
            began_s = time.monotonic()
            while time.monotonic() - began_s < 5 or before.leader in cluster.processes:
                producer.send("killed", b"%07d" % sent, on_delivery=on_delivery)
                sent += 1
                time.sleep(0.001)
                if before.leader in cluster.processes and time.monotonic() - began_s > 1:
                    cluster.kill(before.leader)
            assert producer.flush(120) == 0
        deadline_s = time.monotonic() + 60
        while len(polled) < sent and time.monotonic() < deadline_s:
            time.sleep(0.05)
    finally:
        stop.set()
        reader.join(60)
        cluster.start(before.leader)
    after = admin.describe_topics(["killed"])["killed"].partitions[0]
    assert after.leader_epoch > before.leader_epoch
    assert errors == []
    assert [place.offset for place in acked if place.offset >= 0] == sorted(p.offset for p in acked if p.offset >= 0)
    assert all_values(cluster, "killed", 1) == [b"%07d" % index for index in range(sent)]
    assert polled == [b"%07d" % index for index in range(sent)]  # the consumer followed the leader


def test_the_sum_of_many_producers_is_exact(cluster: Cluster, admin: Admin) -> None:
    """With acks=1: it is repeated if a leader changed meanwhile, as a busy host may have it."""
    topics = (f"many-{number}" for number in range(10))
    wait_until(lambda: is_exact_while_nobody_dies(cluster, admin, next(topics)), "leaders that stay")


def is_exact_while_nobody_dies(cluster: Cluster, admin: Admin, topic: str) -> bool:
    """False if a leader changed: the next one need not have what was acknowledged, and may get it twice."""
    make_topics(admin, NewTopic(name=topic, partitions=4, replication_factor=3))
    leaders = wait_until(lambda: leaders_of(admin, topic), "leaders")
    acked: list[int] = []

    def work(number: int) -> None:
        with Producer({"bootstrap.servers": cluster.bootstrap(), "acks": "1", "batch.size": 2000}) as producer:
            futures = [producer.send(topic, b"%d-%d" % (number, index)) for index in range(3000)]
            producer.flush(120)
            acked.append(sum(future.exception(0) is None for future in futures))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    partitions = [TopicPartition(topic, index) for index in range(4)]

    def is_over() -> bool:
        """acks=1 answers before the followers have it, and readers see only what they have."""
        return leaders_of(admin, topic) not in ([], leaders) or sum(admin.list_offsets(partitions).values()) >= 9000

    wait_until(is_over, "all can be read")
    arrived = Counter(all_values(cluster, topic, 4))
    if wait_until(lambda: leaders_of(admin, topic), "leaders") != leaders:
        return False
    assert acked == [3000, 3000, 3000]
    assert arrived == Counter(b"%d-%d" % (number, index) for number in range(3) for index in range(3000))
    return True


def test_a_consumer_ahead_of_an_unclean_leader_goes_on_where_the_logs_part(cluster: Cluster, admin: Admin) -> None:
    """KIP-320. The follower misses ten records, leads, and grows past the consumer's position before it looks again."""
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    make_topics(admin, NewTopic(name="cut", partitions=1, replication_factor=2, config=config))
    partition = TopicPartition("cut", 0)
    wait_until(lambda: leaders_of(admin, "cut"), "a leader")
    first = admin.describe_topics(["cut"])["cut"].partitions[0]
    follower = next(each for each in first.replicas if each != first.leader)
    producer_properties = {"bootstrap.servers": cluster.bootstrap(), "acks": "1", "linger.ms": 0}

    def produce(name: bytes, count: int) -> None:
        with Producer(producer_properties) as producer:
            futures = [producer.send("cut", b"%s-%d" % (name, index)) for index in range(count)]
            assert producer.flush(60) == 0
            assert all(future.get(1).offset >= 0 for future in futures)

    def led_by(broker: int) -> bool:
        return admin.describe_topics(["cut"])["cut"].partitions[0].leader == broker

    polled: list[bytes | None] = []

    def read(consumer: Consumer, count: int) -> None:
        wait_until(lambda: polled.extend(each.value for each in consumer.poll(50)) or len(polled) >= count, "records")

    with Consumer({"bootstrap.servers": cluster.bootstrap(), "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([partition])
        produce(b"common", 5)
        wait_until(lambda: admin.list_offsets([partition])[partition] == 5, "the follower has the common records")
        cluster.kill(follower)
        wait_until(lambda: admin.describe_topics(["cut"])["cut"].partitions[0].isr == (first.leader,), "the ISR of one")
        produce(b"lost", 10)
        read(consumer, 15)
        cluster.kill(first.leader)
        cluster.start(follower)
        wait_until(lambda: led_by(follower), "the unclean election")
        produce(b"new", 30)
        read(consumer, 45)
    cluster.start(first.leader)
    expected = [b"common-%d" % n for n in range(5)] + [b"lost-%d" % n for n in range(10)]
    assert polled == expected + [b"new-%d" % n for n in range(30)]
