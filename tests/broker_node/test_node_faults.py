"""Killed leaders and controllers, cut links: the cluster goes on, and the journals tell exactly what was lost."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_helper import PATIENT, Cluster
from confluent_helper import consume, create_topic, isr, leader, produce, wait_brokers
from confluent_kafka import KafkaError, Producer
from link_helper import Link
from wire_helper import ask

from broker.wire.apis import ApiKey
from tests.patience import wait_until

pytestmark = pytest.mark.slow
SESSION_TIMEOUT_MS = 3_000  # a busy host keeps a broker from its heartbeats for a second
SETTINGS = {"broker.session.timeout.ms": SESSION_TIMEOUT_MS, "replica.socket.timeout.ms": 1_000}


class Linked:
    """A cluster whose every ordered internal link goes through a Link."""

    def __init__(self, directory: Path, settings: dict[str, object]) -> None:
        self.cluster = Cluster(directory, settings={**SETTINGS, **settings})
        pairs = [(i, j) for i in self.cluster.ids for j in self.cluster.ids if i != j]
        self.links = {(i, j): Link(self.cluster.ports[j]["INTERNAL"]) for i, j in pairs}
        self.cluster.internal_routes = {pair: link.port for pair, link in self.links.items()}

    def cut_followers_of(self, broker: int) -> None:
        for (_, target), link in self.links.items():
            if target == broker:
                link.cut()

    def heal(self) -> None:
        for link in self.links.values():
            link.heal()

    def __enter__(self) -> Linked:
        self.cluster.start_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.__exit__()
        for link in self.links.values():
            link.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, settings=SETTINGS) as running:
        wait_brokers(running)
        yield running


def test_acknowledged_records_survive_the_death_of_the_leader(cluster: Cluster) -> None:
    create_topic(cluster, "t", config={"min.insync.replicas": "2"})
    before = produce(cluster, "t", [f"before {n}" for n in range(200)], acks="all")
    victim = leader(cluster, "t")
    cluster.kill(victim)
    begin = time.monotonic()
    after = produce(cluster, "t", [f"after {n}" for n in range(50)], acks="all")
    print(f"first acknowledged write {time.monotonic() - begin:.2f} s after the kill")
    assert time.monotonic() - begin < 30  # SESSION_TIMEOUT_MS and an election, on a busy host
    assert leader(cluster, "t") != victim
    found = consume(cluster, "t", 250)
    assert set(before) | set(after) == set(found)
    assert len(found) == 250
    cluster.start(victim)
    wait_until(lambda: isr(cluster, "t") == {1, 2, 3}, "the killed broker is back in the ISR")


def test_cluster_goes_on_after_the_death_of_the_active_controller(cluster: Cluster) -> None:
    create_topic(cluster, "t", config={"min.insync.replicas": "2"})
    produce(cluster, "t", ["a"], acks="all")
    victim = wait_until(cluster.controller, "a controller")
    cluster.kill(victim)
    begin = time.monotonic()
    wait_until(cluster.controller, "another controller")
    print(f"new controller after {time.monotonic() - begin:.2f} s")
    assert cluster.controller() != victim
    create_topic(cluster, "later", config={"min.insync.replicas": "2"})
    assert produce(cluster, "t", ["b"], acks="all")
    assert consume(cluster, "t", 2) == ["a", "b"]
    cluster.start(victim)
    wait_brokers(cluster)
    wait_until(lambda: isr(cluster, "t") == {1, 2, 3}, "the killed broker is back in the ISR")


def test_a_client_that_begins_just_after_the_death_of_the_controller_is_told_a_broker_that_lives(
    tmp_path: Path,
) -> None:
    """The others named the dead one until they had heard of an election. librdkafka's admin client then waited for it
    until its time-out: "Failed while waiting for controller". Here the dead broker's session lasts half a minute."""
    with Cluster(tmp_path, settings={**SETTINGS, **PATIENT}) as cluster:
        victim = wait_until(cluster.controller, "a controller")
        cluster.kill(victim)
        survivors = sorted(cluster.processes)
        asked = {"topics": [], "allow_auto_topic_creation": False}
        told = [ask(cluster.ports[each]["DIRECT"], ApiKey.METADATA, 12, **asked).controller_id for each in survivors]
        assert told == survivors
        create_topic(cluster, "later")


def test_a_broker_lets_no_client_in_before_it_knows_the_cluster(tmp_path: Path) -> None:
    """It did, and said that no topic exists. librdkafka fails records for that. Clients may use the listener of the
    brokers too, and no broker asks another one before it has joined."""
    cluster = Cluster(tmp_path)
    cluster.start(1)  # without the other voters it gets no metadata
    try:
        wait_until(lambda: " started " in cluster.stderr(1), "it has started")
        accepts = {name: lets_in(port) for name, port in cluster.ports[1].items()}
    finally:
        cluster.kill(1)
    assert accepts == {"CONTROLLER": True, "INTERNAL": False, "DIRECT": False, "EXTERNAL": False}


def lets_in(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def all_stayed(cluster: Cluster, seconds: float) -> bool:
    """Whether all were in the ISR all this time. A follower that a busy host stops for longer than the lag leaves."""
    begin = len(cluster.events("isr_changed"))
    time.sleep(seconds)
    return isr(cluster, "t") == {1, 2, 3} and len(cluster.events("isr_changed")) == begin


def known_by(cluster: Cluster, broker: int, topic: str) -> Any:
    """Partition 0 as this broker tells it. The others may have heard more, or less."""
    topics = [{"topic_id": None, "name": topic}]
    told = ask(cluster.ports[broker]["DIRECT"], ApiKey.METADATA, 12, topics=topics, allow_auto_topic_creation=False)
    return told.topics[0].partitions[0]


def test_acks_1_loses_exactly_what_the_journal_says(tmp_path: Path) -> None:
    with Linked(tmp_path, {}) as linked:
        cluster = linked.cluster
        wait_brokers(cluster)
        create_topic(cluster, "t")
        kept = produce(cluster, "t", [f"kept {n}" for n in range(100)], acks="all")
        victim = leader(cluster, "t")
        epoch = known_by(cluster, victim, "t").leader_epoch  # 0, unless a busy host had a leader fenced before
        linked.cut_followers_of(victim)
        lost = produce(cluster, "t", [f"lost {n}" for n in range(40)], acks=1)
        assert sorted(lost.values()) == list(range(100, 140))
        cluster.kill(victim)
        after = produce(cluster, "t", [f"after {n}" for n in range(10)], acks="all")
        assert sorted(after.values()) == list(range(100, 110))
        linked.heal()
        cluster.start(victim)
        wait_until(lambda: isr(cluster, "t") == {1, 2, 3}, "the killed broker is back in the ISR")
        found = consume(cluster, "t", 110)
        assert set(found) == set(kept) | set(after)
        truncated = cluster.events("truncated")
        facts = [(e["broker"], e["from_offset"], e["to_offset"], e["leader_epoch"]) for e in truncated]
        assert facts == [(victim, 140, 100, epoch)], "exactly the offsets that were acknowledged and lost"


def test_acks_all_loses_nothing_when_the_followers_are_cut(tmp_path: Path) -> None:
    with Linked(tmp_path, {"min.insync.replicas": 2}) as linked:
        cluster = linked.cluster
        wait_brokers(cluster)
        create_topic(cluster, "t")
        kept = produce(cluster, "t", [f"kept {n}" for n in range(100)], acks="all")
        victim = leader(cluster, "t")
        linked.cut_followers_of(victim)
        producer = Producer({"bootstrap.servers": cluster.bootstrap(), "acks": "all", "log_level": 0})
        outcomes: list[object] = []
        for number in range(20):
            producer.produce(
                "t", f"late {number}".encode(), partition=0, on_delivery=lambda error, _: outcomes.append(error)
            )
        producer.poll(0.5)
        assert outcomes == [], "nothing may be acknowledged that only the leader holds"
        cluster.kill(victim)
        assert producer.flush(120) == 0
        assert outcomes == [None] * 20
        linked.heal()
        found = consume(cluster, "t", 120)
        assert set(found) == set(kept) | {f"late {number}" for number in range(20)}


def test_isr_shrinks_under_the_minimum_and_grows_back(tmp_path: Path) -> None:
    with Linked(tmp_path, {"min.insync.replicas": 2, "replica.lag.time.max.ms": 1_000}) as linked:
        cluster = linked.cluster
        wait_brokers(cluster)
        create_topic(cluster, "t")
        produce(cluster, "t", ["a"], acks="all")
        wait_until(lambda: all_stayed(cluster, 2.5), "idle followers that have everything stay")
        first = leader(cluster, "t")
        linked.cut_followers_of(first)
        produce(cluster, "t", ["b"], acks=1)
        # As the leader itself has it: before, it appends the record and refuses it then.
        wait_until(lambda: set(known_by(cluster, first, "t").isr_nodes) == {first}, "who is cut leaves the ISR")
        errors: list[KafkaError] = []
        producer = Producer({"bootstrap.servers": cluster.bootstrap(), "acks": "all", "retries": 0, "log_level": 0})
        producer.produce("t", b"refused", partition=0, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(60) == 0
        assert [error.code() for error in errors] == [KafkaError.NOT_ENOUGH_REPLICAS]
        linked.heal()
        wait_until(lambda: isr(cluster, "t") == {1, 2, 3}, "healed followers come back")

        def changes() -> list[set[int]]:
            return [set(event["isr"]) for event in cluster.events("isr_changed") if event["broker"] == first]

        wait_until(lambda: changes()[-1] == {1, 2, 3}, "the leader's journal has it too")
        assert changes()[0] == {1, 2, 3}
        assert {first} in changes()
        assert produce(cluster, "t", ["c"], acks="all") == {"c": 2}
