"""Logs are recovered before the broker joins and away from its loop; what was deleted while it was down goes."""

from __future__ import annotations

import asyncio
import errno
import threading
from pathlib import Path
from typing import Any

import pytest
from cluster_helper import SESSION_TIMEOUT_MS, Cluster
from confluent_helper import QUIET, create_topic
from confluent_kafka import Producer
from link_helper import RawClient
from partitions_helper import Kept, image, replicas_at, the, topic

from broker.controller.image import MetadataImage
from broker.log.filesystem import File, LocalFileSystem
from broker.node.replicas.replicas import Replicas
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request
from broker.wire.records import encode_batch
from tests.patience import wait_until

RECORD = encode_batch([b"value"], timestamps_ms=1)


def leave(path: Path, *names: str, is_clean: bool = False) -> None:
    """A life that had these topics, ids from 1 on, each with a record."""
    replicas = replicas_at(path)
    states = [topic(name, number) for number, name in enumerate(names, start=1)]
    replicas.roles.apply_image(MetadataImage(), image(*states))
    for name in names:
        the(replicas, name).log.append(RECORD, leader_epoch=0)
    if is_clean:
        replicas.close()


def directories(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir() if each.is_dir())


def restarted(path: Path, now: MetadataImage) -> tuple[Replicas, Kept]:
    """The next life, to where it has heard of its own registration and removed what goes."""
    journal = Kept()
    replicas = replicas_at(path, journal=journal)

    async def run() -> None:
        await replicas.recovery.run(now)
        replicas.roles.apply_image(MetadataImage(), now)
        replicas.recovery.discard_strays(now)
        removals = asyncio.create_task(replicas.recovery.run_removals())
        while any(name.endswith("-delete") for name in directories(path)):
            await asyncio.sleep(0.001)
        removals.cancel()

    asyncio.run(run())
    return replicas, journal


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_log_whose_topic_was_deleted_while_the_broker_was_down_goes(tmp_path: Path, is_clean: bool) -> None:
    leave(tmp_path, "kept", "gone", is_clean=is_clean)
    replicas, journal = restarted(tmp_path, image(topic("kept", 1)))
    assert directories(tmp_path) == ["kept-0"]
    assert [each["topic"] for each in journal.of("stray_log_removed")] == ["gone"]
    assert the(replicas, "kept").log.log_end_offset == 1


def test_a_topic_made_anew_under_its_old_name_begins_empty(tmp_path: Path) -> None:
    leave(tmp_path, "t")
    replicas, _ = restarted(tmp_path, image(topic("t", 77)))
    assert the(replicas, "t").log.log_end_offset == 0
    assert directories(tmp_path) == ["t-0"]


def test_a_stray_that_becomes_unreadable_is_left_and_the_others_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(tmp_path, "gone", "unreadable")
    replicas = replicas_at(tmp_path, journal=(journal := Kept()))
    real, asked = replicas.recovery._directories.topic_id_of, list[str]()

    def second_read_fails(name: str, partition: int) -> str | None:
        asked.append(name)
        if name == "unreadable" and asked.count(name) == 2:
            raise OSError(errno.EIO, "read error")
        return real(name, partition)

    monkeypatch.setattr(replicas.recovery._directories, "topic_id_of", second_read_fails)
    replicas.recovery.discard_strays(image())
    assert [each["topic"] for each in journal.of("stray_log_removed")] == ["gone"]
    assert "unreadable-0" in directories(tmp_path)


def test_a_directory_that_is_none_of_ours_stays(tmp_path: Path) -> None:
    """No topic id says that we made it; and a damaged log of a topic that exists is not a stray."""
    leave(tmp_path, "kept")
    (tmp_path / "backup-2024").mkdir()
    (tmp_path / "backup-2024" / "notes.txt").write_text("mine")
    replicas, journal = restarted(tmp_path, image(topic("kept", 1)))
    assert directories(tmp_path) == ["backup-2024", "kept-0"]
    replicas.recovery.discard_strays(image(topic("kept", 1), topic("other", 5)))
    assert directories(tmp_path) == ["backup-2024", "kept-0"]
    assert journal.of("stray_log_removed") == []


def test_what_an_interrupted_removal_left_goes_at_the_next_start(tmp_path: Path) -> None:
    leave(tmp_path, "kept")
    (tmp_path / "gone-0.some-id-delete").mkdir()
    restarted(tmp_path, image(topic("kept", 1)))
    assert directories(tmp_path) == ["kept-0"]


class HeldFileSystem(LocalFileSystem):
    """Opening a segment takes until it is let go: a scan of a large log."""

    __slots__ = ("begun", "may_go_on")

    def __init__(self) -> None:
        self.begun, self.may_go_on = threading.Event(), threading.Event()

    def open(self, path: str) -> File:
        if path.endswith(".log"):
            self.begun.set()
            assert self.may_go_on.wait(30), "nobody let it go on"
        return super().open(path)


def test_a_long_recovery_does_not_hold_up_the_event_loop(tmp_path: Path) -> None:
    leave(tmp_path, "t")
    disk = HeldFileSystem()
    replicas = replicas_at(tmp_path, filesystem=disk)
    now = image(topic("t", 1))

    async def run() -> int:
        recovery = asyncio.create_task(replicas.recovery.run(now))
        turns = 0
        while not (disk.begun.is_set() and turns > 100):
            await asyncio.sleep(0)
            turns += 1
        assert not recovery.done()
        disk.may_go_on.set()
        await recovery
        return turns

    assert asyncio.run(run()) > 100
    opened = replicas.recovery.untaken()
    replicas.roles.apply_image(MetadataImage(), now)
    assert [the(replicas, "t").log] == opened, "it is not opened a second time"


def test_a_stop_within_the_recovery_does_not_vouch_for_what_was_not_opened(tmp_path: Path) -> None:
    leave(tmp_path, "t", "u")
    replicas = replicas_at(tmp_path)
    replicas.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


@pytest.mark.slow
def test_a_real_broker_recovers_before_it_joins_and_goes_on_with_producers_that_it_forgot(tmp_path: Path) -> None:
    """After SIGKILL one segment of each log is scanned. librdkafka ends for good where a broker calls the next batch of
    a forgotten producer out of order: also after a restart, from the snapshot."""
    settings = {
        "producer.id.expiration.ms": 300,
        "log.retention.check.interval.ms": 50,
        "log.initial.task.delay.ms": 0,
        "log.segment.bytes": 2000,
        "broker.session.timeout.ms": SESSION_TIMEOUT_MS,
    }
    with Cluster(tmp_path, brokers=1, settings=settings) as cluster:
        create_topic(cluster, "t")
        producer = Producer({"bootstrap.servers": cluster.bootstrap(), **QUIET, "enable.idempotence": True})
        send(producer, 20)
        wait_until(lambda: has_no_producers(cluster), "the producer is forgotten")
        send(producer, 1)
        cluster.kill(1)
        cluster.start(1)
        recovered = wait_until(lambda: recoveries(cluster), "the log is recovered")
        assert recovered[-1]["segments"] > 3
        assert recovered[-1]["scanned_segments"] == 1
        second_life = cluster.stderr(1).rpartition(" listening ")[2]
        assert "regist" not in second_life.partition("recovery_done")[0], "it joined before its logs were open"
        wait_until(lambda: has_no_producers(cluster), "the producer is forgotten again")
        assert cluster.terminate(1, 60) == 0
        cluster.start(1)
        wait_until(lambda: len(recoveries(cluster)) > len(recovered), "the log is opened again")
        assert recoveries(cluster)[-1]["clean"]
        send(producer, 1)


def recoveries(cluster: Cluster) -> list[dict[str, Any]]:
    return [each for each in cluster.journal(1) if each["kind"] == "log_recovered" and each["topic"] == "t"]


def send(producer: Producer, count: int) -> None:
    errors: list[object] = []
    for number in range(count):
        producer.produce("t", b"%d" % number * 200, partition=0, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(30) == 0
    assert errors == [None] * count


def has_no_producers(cluster: Cluster) -> bool:
    """False also while the broker does not answer or does not lead."""
    topics = [{"name": "t", "partition_indexes": [0]}]
    try:
        with RawClient(cluster.ports[1]["DIRECT"]) as client:
            answer = client.call(ApiKey.DESCRIBE_PRODUCERS, 0, request(ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics))
    except OSError:
        return False
    [found] = answer.topics[0].partitions
    return found.error_code is ErrorCode.none and not found.active_producers
