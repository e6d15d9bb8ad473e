"""Faults on a topic, against a real broker: what they ask for is in force, and proved by what the broker says."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from broker.door.clients import Admin as Client
from broker.door.clients import Producer
from chaos.faults import FAULTS
from chaos.faults.base import FaultRun, Parameter
from chaos.targets import PartitionOfInterest
from harness.clusters.base import Address
from harness.clusters.requests.admin import Admin
from harness.clusters.requests.own_topics import OwnTopics
from harness.clusters.requests.probe import BrokerProbe
from harness.clusters.requests.topic_changes import TopicChanges
from harness.errors import CellError
from tests.workloads.reference_broker import PARTITIONS, ReferenceBroker

TOPIC = "t"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReferenceBroker]:
    running = ReferenceBroker(tmp_path_factory.mktemp("broker"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def own(broker: ReferenceBroker) -> OwnTopics:
    topics = OwnTopics(Admin(lambda: [address_of(broker)]))
    topics.create(TOPIC, partitions=PARTITIONS, replication_factor=1, config={"retention.ms": "3600000"})
    return topics


def address_of(broker: ReferenceBroker) -> Address:
    return Address(host="127.0.0.1", port=int(broker.address.rpartition(":")[2]))


@pytest.fixture
def topics(broker: ReferenceBroker, own: OwnTopics) -> TopicChanges:
    address = address_of(broker)
    return TopicChanges(lambda: {1: address}, lambda topic, partition: BrokerProbe(address), own)


def make(name: str, topics: TopicChanges, partition: int = 0, topic: str = TOPIC, **parameters: Parameter) -> FaultRun:
    spec = FAULTS[name]
    of = PartitionOfInterest(topic=topic, partition=partition)
    port = SimpleNamespace(topics=topics, brokers=SimpleNamespace(leader=lambda topic, partition: 1))
    context = spec.context(spec.default_target, port, of, None, "test")
    return spec.make(context, {**spec.parameters, **parameters})


@pytest.mark.parametrize(("setting", "before"), [("retention.ms", "3600000"), ("max.message.bytes", None)])
def test_a_setting_is_in_force_until_the_fault_heals(topics: TopicChanges, setting: str, before: str | None) -> None:
    in_force = topics.setting_by_broker(TOPIC, setting)[1]
    fault = make("topic_setting", topics, setting=setting, value="123456")
    assert not fault.prove().is_effective
    fault.inject()
    assert fault.prove().is_effective
    assert topics.own_settings(TOPIC)[setting] == "123456"
    fault.heal()
    assert topics.own_settings(TOPIC).get(setting) == before
    assert topics.setting_by_broker(TOPIC, setting) == {1: in_force}
    fault.heal()  # may be called twice


def test_a_setting_that_the_broker_refuses_is_an_error_with_its_words(topics: TopicChanges) -> None:
    with pytest.raises(CellError, match=r"retention\.ms of topic t could not be set to soon: INVALID_CONFIG"):
        make("topic_setting", topics, setting="retention.ms", value="soon").inject()


def test_records_are_deleted_up_to_the_last_ones(topics: TopicChanges, broker: ReferenceBroker) -> None:
    producer = Producer({"bootstrap.servers": broker.address})
    for number in range(50):
        producer.send(TOPIC, b"%d" % number, partition=2)
    assert producer.flush(60) == 0
    producer.close(5)
    fault = make("records_deleted", topics, 2, keep=20)
    assert not fault.prove().is_effective
    fault.inject()
    proof = fault.prove()
    assert (proof.is_effective, proof.detail["partition"], proof.detail["start_offset"]) == (True, 2, 30)
    with pytest.raises(ValueError, match="has 0 records"):
        make("records_deleted", topics, 1, keep=20).inject()


def test_partitions_are_added_for_good(topics: TopicChanges) -> None:
    fault = make("partitions_added", topics, count=2)
    assert not fault.prove().is_effective
    fault.inject()
    assert fault.prove().detail["before"] == PARTITIONS
    assert topics.partition_count(TOPIC) == PARTITIONS + 2
    fault.heal()
    assert topics.partition_count(TOPIC) == PARTITIONS + 2
    with pytest.raises(CellError, match="could not get 1 partitions: INVALID_PARTITIONS"):
        topics.set_partition_count(TOPIC, 1)


def test_a_topic_created_anew_has_another_id_the_old_settings_and_no_records(
    topics: TopicChanges, broker: ReferenceBroker
) -> None:
    before, count = topics.id_by_broker(TOPIC)[1], topics.partition_count(TOPIC)
    producer = Producer({"bootstrap.servers": broker.address})
    producer.send(TOPIC, b"x", partition=0)
    assert producer.flush(60) == 0
    producer.close(5)
    end = topics.end_offset(TOPIC, 0)
    fault = make("topic_recreated", topics, absent_ms=200)
    assert not fault.prove().is_effective
    fault.inject()
    proof = fault.prove()
    detail: dict[str, Any] = dict(proof.detail)
    after = topics.id_by_broker(TOPIC)[1]
    assert proof.is_effective
    assert detail["ids"] == {"before": {"broker 1": before}, "after": {"broker 1": after}}
    assert after not in (before, None)
    assert detail["ends"]["0"] == end > 0
    assert detail["created_us"] - detail["gone_us"] >= 200_000
    assert (topics.partition_count(TOPIC), topics.end_offset(TOPIC, 0)) == (count, 0)
    assert topics.own_settings(TOPIC)["retention.ms"] == "3600000"
    fault.heal()
    assert topics.id_by_broker(TOPIC)[1] == after


def test_a_topic_whose_deletion_fails_half_way_is_there_again_after_healing(topics: TopicChanges) -> None:
    class Unheard:
        """Deletes, and then nobody says so."""

        def __getattr__(self, name: str) -> object:
            return getattr(topics, name)

        def delete(self, topic: str) -> None:
            topics.delete(topic)
            raise CellError("no broker answered")

    fault = make("topic_recreated", Unheard(), absent_ms=200)  # type: ignore[arg-type]
    with pytest.raises(CellError, match="no broker answered"):
        fault.inject()
    fault.heal()
    assert topics.id_by_broker(TOPIC)[1] is not None
    assert not fault.prove().is_effective


@pytest.mark.parametrize(
    ("fault", "parameters"),
    [
        ("topic_setting", {"setting": "retention.ms", "value": "1000"}),
        ("partitions_added", {"count": 1}),
        ("records_deleted", {"keep": 0}),
        ("topic_recreated", {"absent_ms": 200}),
    ],
)
@pytest.mark.parametrize("once_ours", [False, True])
def test_a_topic_of_somebody_else_is_never_acted_on(
    broker: ReferenceBroker,
    own: OwnTopics,
    topics: TopicChanges,
    fault: str,
    parameters: dict[str, Any],
    once_ours: bool,
) -> None:
    name = f"foreign-{fault}-{once_ours}"
    client = Client({"bootstrap.servers": broker.address})
    if once_ours:  # made by us, deleted by somebody, and made again
        own.create(name, partitions=1, replication_factor=1, config={})
        client.delete_topics([name])
    broker.create_topics(name)
    producer = Producer({"bootstrap.servers": broker.address})
    producer.send(name, b"theirs", partition=0)
    assert producer.flush(60) == 0
    producer.close(5)
    before = (topics.id_by_broker(name), topics.own_settings(name), topics.partition_count(name))
    with pytest.raises(CellError, match="left alone"):
        make(fault, topics, topic=name, **parameters).inject()
    assert (topics.id_by_broker(name), topics.own_settings(name), topics.partition_count(name)) == before
    assert (topics.start_offset(name, 0), topics.end_offset(name, 0)) == (0, 1)
    client.close()


@pytest.mark.parametrize(
    ("fault", "parameters"),
    [
        ("topic_setting", {}),
        ("partitions_added", {"count": 0}),
        ("records_deleted", {"keep": -1}),
        ("topic_recreated", {"absent_ms": 100}),
    ],
)
def test_parameters_that_make_no_sense_are_refused(fault: str, parameters: dict[str, Parameter]) -> None:
    spec = FAULTS[fault]
    assert spec.problem({**spec.parameters, **parameters})
