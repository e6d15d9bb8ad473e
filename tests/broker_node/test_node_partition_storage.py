"""Whatever call of a partition's storage fails, that partition goes offline, and the other one goes on."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from broker.controller.image import MetadataImage, PartitionState, TopicState
from broker.controller.records import replica_directory
from broker.log.checkpoints import CLEAN_SHUTDOWN_FILE
from broker.node.process.journal import Journal
from broker.node.process.logs import Logger
from broker.node.replicas.hosted import HostedPartition
from broker.node.replicas.replicas import open_replicas
from broker.node.settings.config import config_of
from broker.node.settings.values import Address
from broker.replication import Role
from broker.sim.disk import Failure, SimDisk
from broker.sim.filesystem import SimFileSystem
from broker.sim.scheduler import Scheduler
from broker.wire.errors import ErrorCode
from broker.wire.records import encode_batch, validate_batches

TOPIC, TOPIC_ID = "t", UUID(int=7)


def image(*, leader: int = 1, epoch: int = 0, topic_id: UUID = TOPIC_ID, broker: int = 1) -> MetadataImage:
    """All partitions are on one broker, ours is 1."""
    state = PartitionState(replicas=(broker,), isr=(broker,), leader=leader, leader_epoch=epoch, partition_epoch=epoch)
    topic = TopicState(name=TOPIC, topic_id=topic_id, partitions=(state, state))
    return MetadataImage(offset=1 + epoch, topics={TOPIC: topic}, topic_names={topic_id: TOPIC})


class Broker:
    def __init__(self, disk: SimDisk) -> None:
        self.offline_told = 0
        config = config_of(
            node_id=1,
            controller_quorum_voters={1: Address(host="h", port=1)},
            listeners={},
            advertised_listeners={},
            log_dirs=(Path("/data"),),
        )
        self.replicas = open_replicas(
            config=config,
            logger=Logger(1),
            journal=Journal(None, broker_id=1, with_appends=False),
            propose_isr=lambda *_: None,
            on_offline=self._told,
            filesystem=SimFileSystem(disk),
            boot_id=disk.boot_id,
        )
        self.partitions = self.replicas.partitions
        self.image = MetadataImage()

    def _told(self) -> None:
        self.offline_told += 1

    def apply(self, new: MetadataImage) -> None:
        old, self.image = self.image, new
        self.replicas.roles.apply_image(old, new)

    def hosted(self, index: int) -> HostedPartition:
        found = self.partitions.get(TOPIC, index)
        assert found is not None
        return found

    def append(self, index: int) -> ErrorCode:
        buffer = memoryview(bytearray(encode_batch([b"value"] * 3, timestamps_ms=1)))
        headers = validate_batches(buffer)
        appends = self.replicas.appends
        return appends.append(self.hosted(index), buffer, headers, client_id="c", correlation_id=1).error_code

    def check_only_0_is_offline(self) -> None:
        assert self.partitions.get(TOPIC, 0) is None
        assert self.partitions.offline() == [(TOPIC, 0)]
        assert self.partitions.offline_directories() == [replica_directory(TOPIC_ID, 0)]
        assert self.offline_told == 1
        assert self.append(1) is ErrorCode.none


def new_disk() -> SimDisk:
    return SimDisk(scheduler=Scheduler(), rng=random.Random(1), name="disk")


def flush(broker: Broker) -> None:
    """As flush.ms has it."""
    hosted = broker.hosted(0)
    hosted.config = replace(hosted.config, flush_ms=1)
    broker.replicas.upkeep.flush_if_due(hosted, 0)
    broker.replicas.upkeep.flush_if_due(hosted, 1)


CALLS: dict[str, tuple[Failure, Callable[[Broker], object]]] = {
    "append": (Failure(call="write", where="/t-0/", error=errno.ENOSPC), lambda broker: broker.append(0)),
    "flush": (Failure(call="sync", where="/t-0/"), flush),
    "a new leader epoch": (
        Failure(call="write", where="/t-0/leader-epoch"),
        lambda broker: broker.apply(image(epoch=1)),
    ),
}


@pytest.mark.parametrize("name", list(CALLS))
def test_a_call_that_fails_takes_its_partition_offline_and_no_other(name: str) -> None:
    async def run() -> None:
        disk = new_disk()
        broker = Broker(disk)
        broker.apply(image())
        assert (broker.append(0), broker.append(1)) == (ErrorCode.none, ErrorCode.none)
        hosted = broker.hosted(0)
        failure, act = CALLS[name]
        disk.failures.append(failure)
        act(broker)
        assert failure.met == 1
        assert hosted.replica.role is Role.STOPPED
        broker.check_only_0_is_offline()
        broker.apply(image(epoch=2))  # it is offered again, and stays offline
        assert broker.partitions.get(TOPIC, 0) is None
        assert broker.offline_told == 1

    asyncio.run(run())


@pytest.mark.parametrize("call", ["open", "read"])
def test_a_broker_starts_without_a_log_that_it_cannot_open(call: str) -> None:
    async def run() -> None:
        disk = new_disk()
        first = Broker(disk)
        first.apply(image())
        assert (first.append(0), first.append(1)) == (ErrorCode.none, ErrorCode.none)
        disk.failures.append(Failure(call=call, where="/t-0/", is_once=False))
        second = Broker(disk)
        second.apply(image(epoch=1))
        second.check_only_0_is_offline()
        disk.failures.clear()
        third = Broker(disk)
        third.apply(image(epoch=2))
        assert third.hosted(0).log.log_end_offset == 3
        assert third.offline_told == 0

    asyncio.run(run())


def test_a_stop_with_an_offline_partition_leaves_no_mark_of_a_clean_one() -> None:
    async def run() -> None:
        for fails in (False, True):
            disk = new_disk()
            broker = Broker(disk)
            broker.apply(image())
            broker.append(1)
            if fails:
                disk.failures.append(Failure(call="write", where="/t-0/", error=errno.ENOSPC))
                assert broker.append(0) is ErrorCode.kafka_storage_error
            broker.replicas.close()
            assert (f"/data/{CLEAN_SHUTDOWN_FILE}" in disk.files) is not fails
            again = Broker(disk)  # half of the batch is in the file: a scan cuts it
            again.apply(image(epoch=1))
            assert (again.hosted(0).log.log_end_offset, again.hosted(1).log.log_end_offset) == (0, 3)

    asyncio.run(run())


def test_a_topic_made_anew_has_a_log_again() -> None:
    async def run() -> None:
        disk = new_disk()
        broker = Broker(disk)
        broker.apply(image())
        disk.failures.append(Failure(call="write", where="/t-0/", error=errno.ENOSPC))
        assert broker.append(0) is ErrorCode.kafka_storage_error
        broker.apply(MetadataImage(offset=5))
        assert broker.partitions.offline() == []
        broker.apply(image(epoch=6, topic_id=UUID(int=8)))
        assert broker.append(0) is ErrorCode.none

    asyncio.run(run())


def test_a_partition_that_moved_away_and_back_stays_offline_until_a_restart() -> None:
    """Its controller forgets a failed directory when the broker registers again, and not before. Until then it would
    let the replica into no ISR, however well it followed."""

    async def run() -> None:
        disk = new_disk()
        broker = Broker(disk)
        broker.apply(image())
        disk.failures.append(Failure(call="write", where="/t-0/", error=errno.ENOSPC))
        assert broker.append(0) is ErrorCode.kafka_storage_error
        broker.apply(image(leader=2, epoch=1, broker=2))
        assert (broker.partitions.get(TOPIC, 0), broker.partitions.get(TOPIC, 1)) == (None, None)
        broker.apply(image(epoch=2))
        broker.check_only_0_is_offline()
        again = Broker(disk)
        again.apply(image(epoch=3))
        assert again.append(0) is ErrorCode.none

    asyncio.run(run())


def test_the_end_of_a_produce_that_waits_when_its_partition_goes_offline_is_told() -> None:
    async def run() -> None:
        disk = new_disk()
        broker = Broker(disk)
        broker.apply(image())
        told: list[ErrorCode] = []
        hosted = broker.hosted(0)
        broker.replicas.cores.await_replication(hosted, required_offset=99, timeout_ms=60_000, done=told.append)
        disk.failures.append(Failure(call="write", where="/t-0/", error=errno.EIO))
        broker.append(0)
        assert told == [ErrorCode.not_leader_or_follower]

    asyncio.run(run())


def test_many_partitions_that_go_at_once_go_in_turns_of_the_loop() -> None:
    """Each is some system calls and perhaps a sync; what is served in between waits for a few of them only."""

    async def run() -> None:
        broker = Broker(new_disk())
        state = PartitionState(replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0)
        topic = TopicState(name=TOPIC, topic_id=TOPIC_ID, partitions=(state,) * 23)
        broker.apply(MetadataImage(offset=1, topics={TOPIC: topic}, topic_names={TOPIC_ID: TOPIC}))
        directory = broker.replicas.recovery._directories
        broker.apply(MetadataImage(offset=2))
        assert broker.partitions.get(TOPIC, 0) is None  # served no more, at once
        left = [len(directory.partitions())]
        while left[-1]:
            await asyncio.sleep(0)
            left.append(len(directory.partitions()))
        assert left == [23, 18, 13, 8, 3, 0]

    asyncio.run(run())


def test_a_topic_of_the_same_name_does_not_wait_for_the_old_one_to_go_and_a_stop_does() -> None:
    async def run() -> None:
        broker = Broker(new_disk())
        broker.apply(image())
        assert broker.append(0) is ErrorCode.none
        broker.apply(MetadataImage(offset=2))
        broker.apply(image(topic_id=UUID(int=8)))
        assert broker.hosted(0).log.log_end_offset == 0
        for _ in range(3):
            await asyncio.sleep(0)  # the turn that was left takes nothing of the new one
        assert broker.append(0) is ErrorCode.none
        directory = broker.replicas.recovery._directories
        assert len(directory.partitions()) == 2
        broker.apply(MetadataImage(offset=9))
        broker.replicas.close()
        assert not directory.partitions()

    asyncio.run(run())
