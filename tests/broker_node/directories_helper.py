"""One broker's partitions over a simulated disk with two log directories, without a process."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from uuid import UUID

from partitions_helper import node_config

from broker.controller.image import MetadataImage, PartitionState, TopicState
from broker.log.directory import LogDirectory
from broker.node.features.replica_moves.moves import ReplicaMoves
from broker.node.features.replica_moves.throttle import Throttle
from broker.node.process.journal import Journal
from broker.node.process.logs import Logger
from broker.node.replicas.hosted import HostedPartition
from broker.node.replicas.opened_directories import id_maker, open_directories
from broker.node.replicas.replicas import open_replicas
from broker.node.settings.config import changed
from broker.node.settings.values import LONG_MAX
from broker.sim.disk import Failure, SimDisk
from broker.sim.filesystem import SimFileSystem
from broker.sim.scheduler import Scheduler
from broker.wire.errors import ErrorCode
from broker.wire.records import encode_batch, validate_batches

TOPIC, TOPIC_ID = "t", UUID(int=7)
PATHS = ("/a", "/b")


def looped(test: Callable[[], None]) -> Callable[[], None]:
    """A broker needs a running event loop."""

    @wraps(test)
    def run() -> None:
        async def inner() -> None:
            test()

        asyncio.run(inner())

    return run


def new_disk() -> SimDisk:
    return SimDisk(scheduler=Scheduler(), rng=random.Random(1), name="disk")


async def _at_once(work: Callable[[], None]) -> None:
    await asyncio.sleep(0)
    work()


class Broker:
    def __init__(self, disk: SimDisk, *, paths: tuple[str, ...] = PATHS, metadata: str = "/m") -> None:
        config = changed(node_config(Path("unused")), log_dirs=tuple(map(Path, paths)), metadata_log_dir=metadata)
        filesystem = SimFileSystem(disk)
        self.directories = open_directories(
            config,
            new_id=id_maker(random.Random(len(disk.files))),
            logger=Logger(1),
            filesystem=filesystem,
            boot_id=disk.boot_id,
        )
        self.told = 0
        self.filesystem = filesystem
        self.told_directories: list[tuple[tuple[str, int], UUID | None]] = []
        self.ended: list[Exception] = []
        self.replicas = open_replicas(
            config=config,
            logger=Logger(1),
            journal=Journal(None, broker_id=1, with_appends=False),
            propose_isr=lambda *_: None,
            on_offline=self._told,
            on_directory_failure=self.ended.append,
            filesystem=filesystem,
            directories=self.directories,
            on_replica=lambda change: self.moves.replica_changed(change),
            run_blocking=_at_once,
        )
        self.partitions = self.replicas.partitions
        self.image = MetadataImage()
        self.moves_rate = LONG_MAX
        self.moves = ReplicaMoves(
            node_id=1,
            directories=self.directories,
            partitions=self.partitions,
            checkpoint=self.replicas.upkeep.checkpoint,
            throttle=Throttle(window_count=11, window_size_ms=1_000),
            rate=lambda: self.moves_rate,
            new_id=id_maker(random.Random(len(disk.files))),
            known_directory=self._known,
            on_discarded=self.replicas.recovery.remove_soon,
            on_directory_changed=lambda directories: self.told_directories.extend(directories.items()),
            run_blocking=_at_once,
            logger=Logger(1),
        )

    def _told(self) -> None:
        self.told += 1

    def apply(
        self, count: int, *, epoch: int = 0, where: Mapping[int, UUID | None] | None = None, topic_id: UUID = TOPIC_ID
    ) -> None:
        """An image with this many partitions, all led by this broker. `where`: as far as the controller knows."""
        states = [
            PartitionState(
                replicas=(1,),
                isr=(1,),
                leader=1,
                leader_epoch=epoch,
                partition_epoch=epoch,
                directories=((where or {}).get(index),),
            )
            for index in range(count)
        ]
        topic = TopicState(name=TOPIC, topic_id=topic_id, partitions=tuple(states))
        topics = {TOPIC: topic} if count else {}
        old = self.image
        self.image = MetadataImage(
            offset=old.offset + 1, topics=topics, topic_names={each.topic_id: name for name, each in topics.items()}
        )
        self.replicas.roles.apply_image(old, self.image)

    def _known(self, key: tuple[str, int]) -> UUID | None:
        state = self.image.partition(*key)
        return None if state is None else state.directory_of(1)

    def hosted(self, index: int) -> HostedPartition:
        found = self.partitions.get(TOPIC, index)
        assert found is not None
        return found

    def path(self, index: int) -> str:
        return self.directories.of_log(self.hosted(index).log).path

    def paths(self, count: int) -> list[str]:
        return [self.path(index) for index in range(count)]

    def directory(self, path: str) -> LogDirectory:
        return next(each for each in self.directories.working if each.path == path)

    def append(self, index: int, *, size_bytes: int = 5) -> ErrorCode:
        buffer = memoryview(bytearray(encode_batch([b"v" * size_bytes] * 3, timestamps_ms=1)))
        headers = validate_batches(buffer)
        appends = self.replicas.appends
        return appends.append(self.hosted(index), buffer, headers, client_id="c", correlation_id=1).error_code

    def id_of(self, path: str) -> UUID:
        found = {each.path: each.directory_id for each in self.directories.working}[path]
        assert found is not None
        return found


def fail(disk: SimDisk, where: str, call: str = "write", *, is_once: bool = False) -> None:
    disk.failures.append(Failure(call=call, where=where, error=errno.EIO, is_once=is_once))
