"""Clusters of one and of seven brokers: all register, replicate, survive what their majority allows."""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster_helper import SESSION_TIMEOUT_MS, Cluster
from confluent_helper import admin, consume, create_topic, isr, known_topic, leader, metadata, produce, wait_brokers
from confluent_kafka.admin import NewTopic

from tests.patience import wait_until

pytestmark = pytest.mark.slow


def test_one_broker_comes_back_with_everything_after_a_crash(tmp_path: Path) -> None:
    with Cluster(tmp_path, brokers=1, settings={"broker.session.timeout.ms": SESSION_TIMEOUT_MS}) as running:
        wait_brokers(running)
        create_topic(running, "t")
        produce(running, "t", ["a", "b"], acks="all")
        running.kill(1)
        running.start(1)
        wait_brokers(running)
        assert leader(running, "t") == 1
        produce(running, "t", ["c"], acks="all")
        assert consume(running, "t", 3) == ["a", "b", "c"]


@pytest.mark.long
def test_seven_brokers_survive_three(tmp_path: Path) -> None:
    with Cluster(tmp_path, brokers=7) as running:
        wait_brokers(running)
        client = admin(running)
        client.create_topics([NewTopic("t", 7, 7, config={"min.insync.replicas": "4"})])["t"].result(120)
        made = known_topic(running, "t", partitions=7).partitions
        assert {each.replicas[0] for each in made.values()} == set(running.ids), "each is to lead one"
        produce(running, "t", ["a"], acks="all")
        dying = [each for each in running.ids if each != leader(running, "t")][:2]
        controller = running.controller()
        victims = {*dying, controller} if controller is not None else set(dying)
        for broker in victims:
            running.kill(broker)
        alive = set(running.ids) - victims

        def is_served_by_the_living() -> bool:
            found = metadata(admin(running))
            partitions = found.topics["t"].partitions.values() if found and "t" in found.topics else ()
            return bool(partitions) and all(each.leader in alive and set(each.isrs) <= alive for each in partitions)

        wait_until(is_served_by_the_living, "living leaders and ISRs")
        produce(running, "t", ["b"], acks="all")
        assert consume(running, "t", 2) == ["a", "b"]
        for broker in victims:
            running.start(broker)
        wait_until(lambda: isr(running, "t") == set(running.ids), "all seven in sync again")
