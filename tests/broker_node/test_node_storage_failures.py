"""Real processes on disks that fail: a broker that stops rather than lies, and a partition that costs itself only."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from cluster_helper import Cluster, make_topics
from confluent_helper import consume, isr, leader, produce, wait_brokers

from broker.door.clients import Admin, NewTopic
from tests.patience import wait_until

pytestmark = pytest.mark.slow
EXIT_QUORUM_STORAGE = 4
FAULT_SEEN_S = 0.05  # the control file is looked at every 20 ms
SETTINGS = {"broker.session.timeout.ms": 3_000, "replica.lag.time.max.ms": 4_000}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory: Path = tmp_path_factory.mktemp("storage")
    with Cluster(directory, settings=SETTINGS, has_faulty_disks=True) as running:
        wait_brokers(running)
        yield running


def create_topic(cluster: Cluster, name: str, *, config: dict[str, str] | None = None) -> None:
    """By our own client: librdkafka's may wait for a broker that is gone as long as its request may take."""
    with Admin({"bootstrap.servers": cluster.bootstrap(), "default.api.timeout.ms": 60_000}) as admin:
        make_topics(admin, NewTopic(name=name, partitions=1, replication_factor=3, config=config or {}))


def break_disk(cluster: Cluster, broker: int, **fault: object) -> None:
    cluster.break_disk(broker, **fault)
    time.sleep(FAULT_SEEN_S)


def restart(cluster: Cluster, broker: int, *topics: str) -> None:
    if broker in cluster.processes:
        cluster.terminate(broker)
    cluster.start(broker)
    for topic in topics:
        wait_until(partial(_is_whole, cluster, topic), f"all in the ISR of {topic}")


def _is_whole(cluster: Cluster, topic: str) -> bool:
    return isr(cluster, topic) == set(cluster.ids)


def offline(cluster: Cluster, broker: int) -> set[tuple[str, int]]:
    events = [each for each in cluster.journal(broker) if each["kind"] in ("storage_failed", "started")]
    last = max(number for number, each in enumerate(events) if each["kind"] == "started")
    return {(each["topic"], each["partition"]) for each in events[last:] if each["kind"] == "storage_failed"}


def test_a_follower_that_cannot_write_the_metadata_log_ends_and_loses_nothing(cluster: Cluster) -> None:
    """Shown before: one ENOSPC was swallowed, and three acknowledged topics were lost."""
    victim = next(each for each in cluster.ids if each != cluster.controller())
    break_disk(cluster, victim, call="write", error="ENOSPC", path="__cluster_metadata-0/0")
    for name in ("kept-1", "kept-2", "kept-3"):
        create_topic(cluster, name)
    process = cluster.processes[victim]
    wait_until(lambda: process.poll() is not None, "the broker ends")
    assert process.returncode == EXIT_QUORUM_STORAGE
    failure = [each for each in cluster.journal(victim) if each["kind"] == "quorum_failed"][-1]
    assert "No space left on device" in failure["cause"]
    assert "quorum_failed" in cluster.stderr(victim).splitlines()[-1]
    cluster.processes.pop(victim)
    cluster.heal_disk(victim)
    restart(cluster, victim, "kept-1", "kept-2", "kept-3")


def test_an_unreadable_log_costs_that_partition_only_and_comes_back_with_a_healed_disk(cluster: Cluster) -> None:
    """Shown before: EIO on one topic failed whole Fetch responses, and healthy topics lost their ISR."""
    for name in ("sick", "well"):
        create_topic(cluster, name, config={"min.insync.replicas": "2"})
        produce(cluster, name, ["before"], acks="all")
    victim = leader(cluster, "sick")
    break_disk(cluster, victim, call="read", error="EIO", path="/sick-0/")
    assert consume(cluster, "sick", 1) == ["before"]  # from the next leader: the first was asked, failed and told
    assert offline(cluster, victim) == {("sick", 0)}
    wait_until(lambda: leader(cluster, "sick") != victim, "leadership is handed on")
    wait_until(lambda: isr(cluster, "sick") == set(cluster.ids) - {victim}, "it leaves that ISR")
    assert cluster.processes[victim].poll() is None
    produce(cluster, "well", ["after"], acks="all")
    wait_until(lambda: isr(cluster, "well") == {1, 2, 3}, "all are in the healthy topic's ISR")
    restart(cluster, victim)  # the disk is as it was: the broker starts without this log
    wait_until(lambda: isr(cluster, "well") == {1, 2, 3}, "the others are back")
    wait_until(lambda: offline(cluster, victim) == {("sick", 0)}, "its log cannot be opened")
    produce(cluster, "sick", ["after"], acks="all")
    cluster.heal_disk(victim)
    restart(cluster, victim, "sick", "well")
    assert consume(cluster, "sick", 2) == ["before", "after"]


def test_a_leader_that_cannot_write_hands_on_and_the_producer_goes_on(cluster: Cluster) -> None:
    create_topic(cluster, "full", config={"min.insync.replicas": "2"})
    produce(cluster, "full", ["before"], acks="all")
    victim = leader(cluster, "full")
    break_disk(cluster, victim, call="write", error="ENOSPC", path="/full-0/")
    acked = produce(cluster, "full", [f"after {n}" for n in range(20)], acks="all", **{"enable.idempotence": True})
    wait_until(lambda: leader(cluster, "full") != victim, "leadership is handed on")
    assert offline(cluster, victim) == {("full", 0)}
    assert sorted(consume(cluster, "full", 21)) == sorted(["before", *acked])
    assert len(acked) == 20
    cluster.heal_disk(victim)
    restart(cluster, victim, "full")
