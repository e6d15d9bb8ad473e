"""Groups of the reference consumer against real brokers: both protocols, other libraries as members, failures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import confluent_kafka
import pytest

from broker.client.core.fetch_state import ConsumerRecord
from broker.client.core.transactions import GroupMetadata
from broker.door.clients import (
    Admin,
    CommitFailedError,
    Consumer,
    ConsumerInterceptor,
    KafkaError,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    RebalanceListener,
    TopicPartition,
)
from broker.wire.errors import ErrorCode
from tests.broker_node.cluster_helper import Cluster, make_topics
from tests.patience import wait_until

pytestmark = pytest.mark.slow

SETTINGS = {
    "offsets.topic.num.partitions": 4,
    "group.initial.rebalance.delay.ms": 100,
    "group.min.session.timeout.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 300,
    "group.consumer.heartbeat.interval.ms": 300,
}
PARTITIONS = 4
BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One broker: what a group does is the same, and costs a third. Failures have a cluster of their own."""
    one = {"offsets.topic.replication.factor": 1}
    with Cluster(tmp_path_factory.mktemp("groups"), brokers=1, settings=SETTINGS | one) as started:
        yield started


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": cluster.bootstrap(), "default.api.timeout.ms": 60_000}) as opened:
        yield opened


@pytest.fixture
def topic(admin: Admin, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"\W+", "-", str(request.node.name))[-80:].strip("-")
    make_topics(admin, NewTopic(name=name, partitions=PARTITIONS, replication_factor=1))
    return name


def produce(cluster: Cluster, topic: str, begin: int, end: int) -> None:
    with Producer({"bootstrap.servers": cluster.bootstrap(), "linger.ms": 0}) as producer:
        futures = [producer.send(topic, b"%d" % index, partition=index % PARTITIONS) for index in range(begin, end)]
        assert producer.flush(60) == 0
        assert all(future.exception(0) is None for future in futures)


def make(cluster: Cluster, protocol: str, group: str, **properties: object) -> Consumer:
    settings: dict[str, object] = {
        "bootstrap.servers": cluster.bootstrap(),
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "fetch.max.wait.ms": 100,
    }
    if protocol == "classic":
        settings |= {"session.timeout.ms": 30_000, "heartbeat.interval.ms": 200}
    return Consumer(settings | {name.replace("_", "."): value for name, value in properties.items()})


class Seen(RebalanceListener):
    def __init__(self) -> None:
        self.calls: list[tuple[str, frozenset[TopicPartition]]] = []

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self.calls.append(("assigned", partitions))

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        self.calls.append(("revoked", partitions))

    def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        self.calls.append(("lost", partitions))


def poll_until(condition: Callable[[], object], what: str, *consumers: Consumer, timeout_s: float = 40) -> list[int]:
    """Polls all in turn; the values that came."""
    values: list[int] = []

    def step() -> object:
        for consumer in consumers:
            values.extend(int(record.value or b"") for record in consumer.poll(20))
        return condition()

    wait_until(step, what, timeout_s)
    return values


def read(count: int, *consumers: Consumer, timeout_s: float = 40) -> list[int]:
    values: list[int] = []

    def step() -> bool:
        for consumer in consumers:
            values.extend(int(record.value or b"") for record in consumer.poll(20))
        return len(values) >= count

    wait_until(step, f"{count} records", timeout_s)
    return values


@BOTH
def test_members_share_the_partitions_and_go_on_where_the_group_has_committed(
    cluster: Cluster, topic: str, protocol: str
) -> None:
    produce(cluster, topic, 0, 100)
    strategy = {"partition_assignment_strategy": "cooperative-sticky"} if protocol == "classic" else {}
    one = make(cluster, protocol, topic, enable_auto_commit=False, **strategy)
    two = make(cluster, protocol, topic, enable_auto_commit=False, **strategy)
    seen = Seen()
    with one, two:
        one.subscribe([topic], seen)
        assert sorted(read(100, one)) == list(range(100))
        assert len(one.assignment()) == PARTITIONS
        one.commit_sync()
        committed = one.committed(one.assignment())
        assert {each.offset for each in committed.values() if each is not None} == {25}
        assert all(each is not None and each.leader_epoch >= 0 for each in committed.values())
        generation = one.group_metadata().generation_id
        two.subscribe([topic])
        poll_until(lambda: len(one.assignment()) == len(two.assignment()) == 2, "an even share", one, two)
        assert not one.assignment() & two.assignment()
        assert one.group_metadata().generation_id > generation
        kept = [partitions for call, partitions in seen.calls if call == "revoked"]
        assert [len(each) for each in kept] == [2]  # cooperative: two stayed
        produce(cluster, topic, 100, 200)
        assert sorted(read(100, one, two)) == list(range(100, 200))  # nothing again, nothing passed over
        two.close()
        poll_until(lambda: len(one.assignment()) == PARTITIONS, "the share of who left", one)
        assert one.committed([TopicPartition(topic, 0)])[TopicPartition(topic, 0)] == OffsetAndMetadata(
            25,
            committed[TopicPartition(topic, 0)].leader_epoch,  # type: ignore[union-attr]  # shown above
        )


@BOTH
def test_automatic_commits_cover_what_was_handed_out(cluster: Cluster, topic: str, protocol: str) -> None:
    produce(cluster, topic, 0, 60)
    with make(cluster, protocol, topic, max_poll_records=10) as one:
        one.subscribe([topic])
        first = read(30, one)
    with make(cluster, protocol, topic) as two:
        two.subscribe([topic])
        rest = read(60 - len(first), two)
    assert sorted(first + rest) == list(range(60))


class Watching(ConsumerInterceptor):
    """The second of two: the first one fails each time."""

    def __init__(self) -> None:
        self.commits: list[dict[TopicPartition, int]] = []

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        return [each for each in records if each.value != b"7"]

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.commits.append({each: at.offset for each, at in offsets.items()})


class Failing(ConsumerInterceptor):
    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        raise RuntimeError("on_consume")

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        raise RuntimeError("on_commit")


def test_an_interceptor_hears_of_every_commit_in_order_and_may_take_records_out(cluster: Cluster, topic: str) -> None:
    """KIP-42; what an interceptor raises is for the log only."""
    produce(cluster, topic, 0, 20)
    watching = Watching()
    settings = {
        "bootstrap.servers": cluster.bootstrap(), "group.id": topic, "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 100,
    }  # fmt: skip
    zero = TopicPartition(topic, 0)
    with Consumer(settings, interceptors=[Failing(), watching]) as one:
        one.subscribe([topic])
        assert sorted(read(19, one)) == [each for each in range(20) if each != 7]
        poll_until(lambda: watching.commits and watching.commits[-1].get(zero) == 5, "an automatic commit", one)
        one.commit_async({zero: OffsetAndMetadata(1)})
        one.commit_sync({zero: OffsetAndMetadata(2)})
        assert watching.commits[-2:] == [{zero: 1}, {zero: 2}]
        with pytest.raises(KafkaError, match="OFFSET_METADATA_TOO_LARGE"):
            one.commit_sync({zero: OffsetAndMetadata(3, -1, "x" * 5000)})
        assert watching.commits[-1] == {zero: 2}
    assert watching.commits[-1][zero] == 5  # the last one, as it closed


def test_a_member_that_does_not_poll_loses_its_partitions_and_may_come_back(cluster: Cluster, topic: str) -> None:
    """Until it polls, its application works as the member that it was: offsets in a transaction are refused too."""
    produce(cluster, topic, 0, 8)
    seen = Seen()
    with make(cluster, "classic", topic, max_poll_interval_ms=3000, enable_auto_commit=False) as one:
        one.subscribe([topic], seen)
        read(8, one)
        member = one.group_metadata()
        wait_until(lambda: _is_commit_refused(one), "the member left")
        assert one.group_metadata() == member
        with Producer({"bootstrap.servers": cluster.bootstrap(), "transactional.id": topic}) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
                producer.send_offsets_to_transaction({TopicPartition(topic, 0): 2}, one.group_metadata())
            producer.abort_transaction()
        poll_until(lambda: one.group_metadata() != member and one.assignment(), "a new membership", one)
        one.unsubscribe()
        assert one.group_metadata() == GroupMetadata(group_id=topic)
    assert [call for call, _ in seen.calls][:3] == ["assigned", "lost", "assigned"]


def test_a_static_member_keeps_its_partitions_through_a_restart(cluster: Cluster, topic: str) -> None:
    """KIP-345: no rebalance while it is away for less than the session timeout."""
    with make(cluster, "classic", topic, group_instance_id="other") as other:
        other.subscribe([topic])
        static = make(cluster, "classic", topic, group_instance_id="static")
        static.subscribe([topic])
        poll_until(lambda: len(other.assignment()) == len(static.assignment()) == 2, "an even share", other, static)
        generation, had = other.group_metadata().generation_id, static.assignment()
        static.close()
        with make(cluster, "classic", topic, group_instance_id="static") as again:
            again.subscribe([topic])
            poll_until(lambda: again.assignment(), "its share", other, again)
            assert again.assignment() == had
            assert other.group_metadata().generation_id == generation
            again.close(leaves_group=True)
        poll_until(lambda: len(other.assignment()) == PARTITIONS, "the share of who left for good", other)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_of_ours_and_librdkafkas_members(cluster: Cluster, topic: str, strategy: str) -> None:
    produce(cluster, topic, 0, 40)
    theirs = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap(),
            "group.id": topic,
            "partition.assignment.strategy": strategy,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 30_000,
            "heartbeat.interval.ms": 200,
            "log_level": 0,
        }
    )
    theirs.subscribe([topic])
    values: list[int] = []

    def shared() -> bool:
        values.extend(int(each.value()) for each in theirs.consume(100, 0.05) if not each.error())
        values.extend(int(record.value or b"") for record in ours.poll(20))
        return len(ours.assignment()) == len(theirs.assignment()) == 2

    try:
        with make(cluster, "classic", topic, partition_assignment_strategy=strategy) as ours:
            ours.subscribe([topic])
            wait_until(shared, "an even share between two libraries")
            assert {(each.topic, each.partition) for each in theirs.assignment()}.isdisjoint(ours.assignment())
            produce(cluster, topic, 40, 80)
            wait_until(lambda: shared() and len(set(values)) == 80, "all records")
    finally:
        theirs.close()
    assert max(Counter(values).values()) <= 2  # librdkafka may have read some twice before its first commit


def test_positions_are_the_callers_to_move(cluster: Cluster, topic: str) -> None:
    produce(cluster, topic, 0, 40)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with make(cluster, "classic", topic, enable_auto_commit=False) as consumer:
        consumer.assign([zero, one])  # with a group, without membership
        _all(consumer, 20)
        consumer.seek(zero, 2)
        consumer.seek_to_beginning(one)
        again = [(record.partition, record.offset) for record in _all(consumer, 18)]
        assert sorted(again) == [(0, offset) for offset in range(2, 10)] + [(1, offset) for offset in range(10)]
        consumer.commit_sync({zero: OffsetAndMetadata(7, -1, "note")})
        assert consumer.committed([zero]) == {zero: OffsetAndMetadata(7, -1, "note")}
        outcomes: list[KafkaError | None] = []
        consumer.commit_async(callback=lambda offsets, error: outcomes.append(error))
        poll_until(lambda: outcomes, "the callback", consumer)
        assert outcomes == [None]
        assert consumer.committed([zero])[zero].offset == 10  # type: ignore[union-attr]  # committed
    with make(cluster, "classic", f"{topic}-young", auto_offset_reset="by_duration:PT1H") as young:
        young.assign([zero])
        assert len(_all(young, 10)) == 10


def _is_commit_refused(consumer: Consumer) -> bool:
    try:
        consumer.commit_sync()
    except CommitFailedError as error:
        return error.code == ErrorCode.unknown_member_id
    return False


def _all(consumer: Consumer, count: int) -> list:  # type: ignore[type-arg]  # of ConsumerRecord
    records: list = []  # type: ignore[type-arg]
    wait_until(lambda: records.extend(consumer.poll(50)) or len(records) >= count, f"{count} records")
    return records
