"""The share coordinator over a real log: what is not needed any more is removed, and the rest is enough to load."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker.controller.image import MetadataImage, PartitionState, TopicState
from broker.node.features.share_groups.coordinator import TOPIC, ShareStates
from broker.node.features.share_groups.delivery.state_batches import StateBatch
from broker.node.features.share_groups.states.records import StateKey
from broker.node.features.share_groups.states.shard import InitializeState, ReadSummary, StateResult, WriteState
from broker.node.process.journal import Journal
from broker.node.process.logs import Logger
from broker.node.replicas.replicas import open_replicas
from broker.node.settings.config import config_of
from broker.node.settings.values import Address
from broker.wire.errors import ErrorCode

TOPIC_ID, OWN_ID = UUID(int=7), UUID(int=8)
KEY = StateKey(group_id="g", topic_id=TOPIC_ID, partition=0)
WAIT_S = 60.0  # for what takes milliseconds, on a busy host


def image(offset: int = 1, *, with_topic: bool = True) -> MetadataImage:
    partition = PartitionState(replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=offset)
    topics = {TOPIC: TopicState(name=TOPIC, topic_id=OWN_ID, partitions=(partition,))}
    if with_topic:
        topics["t"] = TopicState(name="t", topic_id=TOPIC_ID, partitions=(partition,))
    names = {topic.topic_id: name for name, topic in topics.items()}
    return MetadataImage(offset=offset, topics=topics, topic_names=names)


class World:
    def __init__(self, directory: Path) -> None:
        address = Address(host="127.0.0.1", port=1)
        self.config = config_of(
            node_id=1,
            controller_quorum_voters={1: address},
            listeners={"INTERNAL": address},
            advertised_listeners={},
            log_dirs=(directory,),
            share_coordinator_snapshot_update_records_per_snapshot=3,
        )
        directory.mkdir(exist_ok=True)
        self.replicas = open_replicas(
            config=self.config,
            logger=Logger(1),
            journal=Journal(None, broker_id=1, with_appends=False),
            propose_isr=lambda *_: None,
        )
        self.image, self.is_current = MetadataImage(), True
        self.tasks: set[asyncio.Task[None]] = set()
        self.states = self.new_states()

    def new_states(self) -> ShareStates:
        no_control: Any = None  # the topic is put into the image by hand
        return ShareStates(
            broker_id=1,
            settings=self.config.shares,
            replicas=self.replicas,
            control=no_control,
            image=lambda: self.image,
            logger=Logger(1),
            spawn=self.spawn,
        )

    def spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)

    def apply(self, new: MetadataImage) -> None:
        old, self.image = self.image, new
        self.replicas.roles.apply_image(old, new)
        self.states.image_changed(new, is_current=self.is_current)
        self.states.host.image_changed()

    async def fail_over(self, image: MetadataImage | None = None) -> None:
        """Another coordinator loads what the log has."""
        self.states.host.close()
        self.image = image or self.image
        self.states = self.new_states()
        self.states.image_changed(self.image, is_current=self.is_current)
        self.states.host.image_changed()
        while self.states.host.is_loading():
            await asyncio.sleep(0.001)

    async def ask(self, kind: type, **values: object) -> StateResult:
        answer: asyncio.Future[StateResult] = asyncio.get_running_loop().create_future()
        self.states.ask(KEY, lambda token: kind(token=token, key=KEY, exists=True, **values), answer.set_result)
        return await asyncio.wait_for(answer, WAIT_S)

    async def wait_until_nothing_is_kept(self) -> None:
        async with asyncio.timeout(WAIT_S):
            while (await self.ask(ReadSummary)).start_offset != -1:
                await asyncio.sleep(0.001)

    async def write(self, offset: int) -> None:
        batch = StateBatch(first_offset=offset, last_offset=offset, state=2, delivery_count=1)
        result = await self.ask(
            WriteState, state_epoch=1, leader_epoch=0, start_offset=offset, delivery_complete_count=1, batches=(batch,)
        )
        assert result.error_code is ErrorCode.none

    @property
    def log(self) -> Any:
        hosted = self.replicas.partitions.get(TOPIC, 0)
        assert hosted is not None
        return hosted.log


@asynccontextmanager
async def world(directory: Path) -> AsyncIterator[World]:
    made = World(directory)
    made.apply(image())
    try:
        yield made
    finally:
        made.states.host.close()
        for task in made.tasks:
            task.cancel()
        made.replicas.close()


@pytest.mark.parametrize("fails_over", [False, True])
def test_what_lies_before_the_last_snapshots_is_removed(tmp_path: Path, fails_over: bool) -> None:
    async def scenario() -> None:
        async with world(tmp_path / "data") as made:
            await made.ask(InitializeState, state_epoch=1, start_offset=0)
            for offset in range(10):
                await made.write(offset)
            if fails_over:  # then the offsets of snapshots are known from loading
                await made.fail_over()
            assert made.log.log_start_offset == 0
            made.states.prune(0)
            assert made.log.log_start_offset == 8, "snapshots lie at 0, 4 and 8"
            await made.fail_over()
            found = await made.ask(ReadSummary)
            assert (found.start_offset, found.delivery_complete_count, found.state_epoch) == (9, 1, 1)

    asyncio.run(scenario())


def test_states_of_a_deleted_topic_are_removed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(tmp_path / "data") as made:
            await made.ask(InitializeState, state_epoch=1, start_offset=5)
            made.apply(image(2, with_topic=False))
            await made.wait_until_nothing_is_kept()
            await made.fail_over()
            assert (await made.ask(ReadSummary)).start_offset == -1

    asyncio.run(scenario())


def test_states_of_a_topic_that_was_deleted_while_nobody_had_them_are_removed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with world(tmp_path / "data") as made:
            await made.ask(InitializeState, state_epoch=1, start_offset=5)
            await made.fail_over(image(2, with_topic=False))
            await made.wait_until_nothing_is_kept()
            await made.fail_over(image(3))
            assert (await made.ask(ReadSummary)).start_offset == -1

    asyncio.run(scenario())


def test_an_image_from_before_the_topic_was_made_removes_nothing(tmp_path: Path) -> None:
    """A process that starts goes through old images. What they lack may exist."""

    async def scenario() -> None:
        async with world(tmp_path / "data") as made:
            await made.ask(InitializeState, state_epoch=1, start_offset=5)
            made.is_current = False
            await made.fail_over(image(2, with_topic=False))
            assert (await made.ask(ReadSummary)).start_offset == 5
            made.is_current = True
            made.apply(image(3))
            assert (await made.ask(ReadSummary)).start_offset == 5
            made.apply(image(4, with_topic=False))
            await made.wait_until_nothing_is_kept()

    asyncio.run(scenario())
