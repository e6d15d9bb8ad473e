"""Real brokers with two log directories each: what clients see of them, and of one that fails (KIP-112, KIP-858)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from cluster_helper import Cluster, make_topics
from confluent_helper import consume, isr, leader, produce, wait_brokers
from wire_helper import ask

from broker.controller.record_codec import decode_records
from broker.controller.records import PartitionChangeRecord, RegisterBrokerRecord
from broker.door.clients import Admin, NewTopic, TopicPartition
from broker.door.questions import log_directories, moved_logs
from broker.node.cluster.meta_properties import text_of_id
from broker.quorum.entries import decode_entries
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from tests.patience import wait_until

pytestmark = pytest.mark.slow
FAULT_SEEN_S = 0.05  # the control file is looked at every 20 ms
SETTINGS = {"broker.session.timeout.ms": 3_000, "replica.lag.time.max.ms": 4_000}
PARTITIONS = 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory: Path = tmp_path_factory.mktemp("directories")
    with Cluster(directory, settings=SETTINGS, has_faulty_disks=True, directories=2) as running:
        wait_brokers(running)
        yield running


def admin_of(cluster: Cluster) -> Admin:
    return Admin({"bootstrap.servers": cluster.bootstrap(), "default.api.timeout.ms": 60_000})


def create(cluster: Cluster, name: str, partitions: int = PARTITIONS) -> None:
    with admin_of(cluster) as admin:
        make_topics(admin, NewTopic(name, partitions, 3, {"min.insync.replicas": "2"}))


def described(cluster: Cluster, broker: int, topic: str) -> dict[str, list[int]]:
    """The partitions of a topic by log directory; none for a directory that is told as failed."""
    answer = ask(cluster.ports[broker]["DIRECT"], ApiKey.DESCRIBE_LOG_DIRS, 5, topics=None)
    found: dict[str, list[int]] = {}
    for each in answer.results:
        if each.error_code is ErrorCode.none:
            assert each.total_bytes >= each.usable_bytes > 0
            assert not each.is_cordoned
            mine = [one.partition_index for topic_ in each.topics if topic_.name == topic for one in topic_.partitions]
            found[each.log_dir] = sorted(mine)
        else:
            assert each.error_code is ErrorCode.kafka_storage_error
    return found


def holds(cluster: Cluster, broker: int, topic: str) -> list[list[int]]:
    """The partitions in each directory, by the file system."""
    return [
        sorted(int(path.name.rpartition("-")[2]) for path in directory.glob(f"{topic}-[0-9]*"))
        for directory in cluster.log_dirs(broker)
    ]


def test_partitions_are_spread_and_described_and_the_metadata_log_knows_where_they_lie(cluster: Cluster) -> None:
    create(cluster, "spread")
    for broker in cluster.ids:
        wait_until(lambda broker=broker: sum(map(len, holds(cluster, broker, "spread"))) == PARTITIONS, "replicas")
        first, second = holds(cluster, broker, "spread")
        assert len(first) == len(second) == PARTITIONS // 2
        expected = dict(zip(map(str, cluster.log_dirs(broker)), (first, second), strict=True))
        assert described(cluster, broker, "spread") == expected
        assert not list(cluster.log_dirs(broker)[1].glob("__cluster_metadata*"))
    ids = [
        [dict(line.split("=") for line in (path / "meta.properties").read_text().splitlines()[1:])["directory.id"]
         for path in cluster.log_dirs(broker)]
        for broker in cluster.ids
    ]  # fmt: skip
    assert len({each for both in ids for each in both}) == 2 * len(cluster.ids)
    log = cluster.log_dir(1) / "__cluster_metadata-0" / "00000000000000000000.log"

    def told() -> bool:
        """Whether the controller has written the directory of every replica of the last partition."""
        entries = [each for each in decode_entries(log.read_bytes()) if not each.is_control]
        records = [record for entry in entries for record in decode_records(entry.values)]
        registered = {each.broker_id: each for each in records if isinstance(each, RegisterBrokerRecord)}
        assert [sorted(map(text_of_id, registered[broker].log_directories)) for broker in cluster.ids] == [
            sorted(both) for both in ids
        ]
        changes = [each for each in records if isinstance(each, PartitionChangeRecord) and each.directories]
        last = [each.directories for each in changes if each.partition == PARTITIONS - 1]
        return bool(last) and last[-1] is not None and None not in last[-1]

    wait_until(told, "every replica's directory is in the metadata log")


def test_a_directory_that_fails_hands_its_leaders_on_and_comes_back_with_a_healed_disk(cluster: Cluster) -> None:
    create(cluster, "half")
    wait_until(lambda: all(isr(cluster, "half", index) == {1, 2, 3} for index in range(PARTITIONS)), "all in sync")
    victim = leader(cluster, "half", 0)
    inside = next(each for each in holds(cluster, victim, "half") if 0 in each)
    path = next(each for each in cluster.log_dirs(victim) if str(each) == _where(cluster, victim, "half", 0))
    if path == cluster.log_dir(victim):  # the directory of the metadata log would end the broker
        path = cluster.log_dirs(victim)[1]
        inside = holds(cluster, victim, "half")[1]
    outside = sorted(set(range(PARTITIONS)) - set(inside))
    for index in range(PARTITIONS):
        produce(cluster, "half", [f"before {index}"], acks="all", partition=index)
    cluster.break_disk(victim, call="any", error="EIO", path=f"{path.name}/")
    time.sleep(FAULT_SEEN_S)
    for index in range(PARTITIONS):  # the producer finds the new leader
        produce(cluster, "half", [f"after {index}"], acks="all", partition=index)
    for index in inside:
        wait_until(lambda index=index: isr(cluster, "half", index) == set(cluster.ids) - {victim}, "it leaves")
        wait_until(lambda index=index: leader(cluster, "half", index) != victim, "others lead")
    for index in outside:
        wait_until(partial(_is_whole, cluster, "half", index), "all in the ISR of the other directory")
    assert cluster.processes[victim].poll() is None
    assert str(path) not in described(cluster, victim, "half")
    assert described(cluster, victim, "half")[str(cluster.log_dir(victim))] == outside
    failures = [each for each in cluster.journal(victim) if each["kind"] == "storage_failed" and "directory" in each]
    assert [each["directory"] for each in failures] == [str(path)]
    cluster.terminate(victim)
    cluster.heal_disk(victim)
    cluster.start(victim)
    for index in range(PARTITIONS):
        wait_until(partial(_is_whole, cluster, "half", index), f"all in the ISR of {index}")
        assert consume(cluster, "half", 2, partition=index) == [f"before {index}", f"after {index}"]


def _is_whole(cluster: Cluster, topic: str, index: int) -> bool:
    return isr(cluster, topic, index) == set(cluster.ids)


def _where(cluster: Cluster, broker: int, topic: str, index: int) -> str:
    found = described(cluster, broker, topic)
    return next(path for path, indexes in found.items() if index in indexes)


# -- moves (KIP-113) -----------------------------------------------------------------------------------------------


def other_directory(cluster: Cluster, broker: int, topic: str, index: int = 0) -> str:
    return next(str(each) for each in cluster.log_dirs(broker) if str(each) != _where(cluster, broker, topic, index))


def is_moved(cluster: Cluster, broker: int, topic: str, path: str) -> bool:
    """Whether the log is there alone, by the file system."""
    found = [each for each in cluster.log_dirs(broker) for name in each.glob(f"{topic}-0*") if name.is_dir()]
    return [str(each) for each in found] == [path]


def test_a_leader_and_a_follower_move_while_they_are_written_and_read(cluster: Cluster) -> None:
    create(cluster, "moving", 1)
    wait_until(partial(_is_whole, cluster, "moving", 0), "all in sync")
    values = [f"{number:06d}" + "x" * 2_000 for number in range(3_000)]
    produce(cluster, "moving", values[:2_000], acks="all", **{"linger.ms": 5})
    leads = leader(cluster, "moving")
    follows = next(each for each in cluster.ids if each != leads)
    paths = {broker: other_directory(cluster, broker, "moving") for broker in (leads, follows)}
    with admin_of(cluster) as admin:
        for broker, path in paths.items():
            assert admin.ask(moved_logs({ZERO_OF_MOVING: path}), broker) == {ZERO_OF_MOVING: None}
        produce(cluster, "moving", values[2_000:], acks="all", **{"enable.idempotence": True})
        for broker, path in paths.items():
            wait_until(partial(is_moved, cluster, broker, "moving", path), f"{broker} has moved")
            (replica,) = [
                each.replicas[ZERO_OF_MOVING]
                for each in admin.ask(log_directories(), broker).values()
                if ZERO_OF_MOVING in each.replicas
            ]
            assert not replica.is_future
    assert leader(cluster, "moving") == leads
    assert consume(cluster, "moving", 3_000) == values
    for broker in (leads, follows):
        cluster.kill(broker)
        cluster.start(broker)
        wait_until(partial(_is_whole, cluster, "moving", 0), "all in sync")
        assert is_moved(cluster, broker, "moving", paths[broker])
    assert consume(cluster, "moving", 3_000) == values


ZERO_OF_MOVING = TopicPartition("moving", 0)
