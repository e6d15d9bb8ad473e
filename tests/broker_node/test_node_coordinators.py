"""A coordinator's shell over real partitions: load by replay, answer at the high watermark, drop on lost leadership.

The shard is a counter per key, so that each answer shows the state that it was computed from.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker.controller.image import MetadataImage, PartitionState, TopicState
from broker.coordinator.keys import partition_for
from broker.coordinator.runtime import (
    Append,
    CoordinatorAction,
    Emit,
    Loaded,
    LoadedMarker,
    LoadedRecord,
    Reply,
    StateRecord,
)
from broker.log.partition_log import PartitionLog
from broker.node.cluster.metadata import monotonic_ms
from broker.node.coordination.coordinators import CoordinatorHost
from broker.node.coordination.topic_maker import InternalTopic
from broker.node.process.journal import Journal
from broker.node.process.logs import Logger
from broker.node.replicas.replicas import open_replicas
from broker.node.settings.config import config_of
from broker.node.settings.values import Address
from broker.replication import FollowerFetched
from broker.wire.errors import ErrorCode
from broker.wire.records import CodecId, encode_batch
from tests.odd_batches import foreign_name, unreadable

TOPIC = "__counters"
TOPIC_ID = UUID(int=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Add:
    token: int
    key: str
    amount: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    token: int
    key: str


class Counters:
    def __init__(self, index: int) -> None:
        self.index = index
        self.counts: dict[str, int] = {}
        self.appends = 0
        self.events: list[object] = []

    def replay(self, entry: LoadedRecord | LoadedMarker) -> None:
        assert isinstance(entry, LoadedRecord)
        assert entry.value is not None
        self.counts[entry.key.decode()] = int(entry.value)

    def may_append(self, event: object) -> bool:
        return isinstance(event, Add)

    def handle(self, event: object, now_ms: int) -> Sequence[CoordinatorAction]:
        self.events.append(event)
        match event:
            case Add():
                if event.amount < 0:
                    raise ValueError("a defect of the shard")
                count = self.counts[event.key] = self.counts.get(event.key, 0) + event.amount
                self.appends += 1
                record = StateRecord(key=event.key.encode(), value=str(count).encode())
                return [
                    Append(number=self.appends, records=(record,)),
                    Reply(token=event.token, response=count),
                    Emit(effect=("added", count)),
                ]
            case Read():
                return [Reply(token=event.token, response=self.counts.get(event.key), after=0)]
        return []

    def next_deadline_ms(self) -> int | None:
        return None

    def check_invariants(self) -> None:
        pass


def image(*, leader: int = 1, epoch: int = 0, replicas: tuple[int, ...] = (1,), offset: int = 1) -> MetadataImage:
    partition = PartitionState(
        replicas=replicas, isr=replicas, leader=leader, leader_epoch=epoch, partition_epoch=offset
    )
    topic = TopicState(name=TOPIC, topic_id=TOPIC_ID, partitions=(partition, partition))
    return MetadataImage(offset=offset, topics={TOPIC: topic}, topic_names={TOPIC_ID: TOPIC})


class World:
    def __init__(self, directory: Path, *, commit_timeout_ms: int = 5_000) -> None:
        address = Address(host="127.0.0.1", port=1)
        config = config_of(
            node_id=1,
            controller_quorum_voters={1: address},
            listeners={"INTERNAL": address},
            advertised_listeners={},
            log_dirs=(directory,),
        )
        logger = Logger(1)
        directory.mkdir(exist_ok=True)
        self.replicas = open_replicas(
            config=config,
            logger=logger,
            journal=Journal(None, broker_id=1, with_appends=False),
            propose_isr=lambda *_: None,
        )
        self.partitions = self.replicas.partitions
        self.image = MetadataImage()
        self.effects: list[object] = []
        self.shards: list[Counters] = []
        self.tasks: set[asyncio.Task[None]] = set()
        no_control: Any = None  # the topic is put into the image by hand
        self.host: CoordinatorHost[Counters] = CoordinatorHost(
            topic=InternalTopic(name=TOPIC, partitions=2, replication_factor=1, configs={}),
            broker_id=1,
            commit_timeout_ms=commit_timeout_ms,
            load_buffer_bytes=200,  # several reads a load
            codec=CodecId.NONE,
            replicas=self.replicas,
            control=no_control,
            image=lambda: self.image,
            logger=logger,
            spawn=self.spawn,
            make_shard=self.make_shard,
            perform=lambda index, effect: self.effects.append(effect),
        )

    def spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def make_shard(self, index: int) -> Counters:
        self.shards.append(Counters(index))
        return self.shards[-1]

    def apply(self, new: MetadataImage) -> None:
        old, self.image = self.image, new
        self.replicas.roles.apply_image(old, new)
        self.host.image_changed()

    async def ask(self, event: type[Add] | type[Read], key: str, **values: int) -> object:
        """The response, or the ErrorCode of the refusal."""
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.host.call(
            key,
            lambda token: event(token=token, key=key, **values),
            done=answer.set_result,
            refused=answer.set_result,
        )
        return await asyncio.wait_for(answer, 60)

    async def settled(self) -> None:
        while self.tasks or self.host.is_loading():
            await asyncio.sleep(0.001)

    def follower_has_all(self, key: str) -> None:
        hosted = self.partitions.get(TOPIC, partition_for(key, 2))
        assert hosted is not None
        self.replicas.cores.perform(hosted, FollowerFetched(replica_id=2, fetch_offset=hosted.log.log_end_offset))


@asynccontextmanager
async def world(directory: Path, **values: int) -> AsyncIterator[World]:
    made = World(directory, **values)
    try:
        yield made
    finally:
        made.host.close()
        made.replicas.close()


def test_a_new_topic_is_served_at_once_and_a_restart_loads_what_was_answered(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path / "log") as first:
            assert await first.ask(Add, "a") is ErrorCode.not_coordinator  # no topic yet
            first.apply(image())
            for count in range(1, 41):
                assert await first.ask(Add, "a") == count
            assert await first.ask(Add, "b", amount=5) == 5
            assert first.effects[-1] == ("added", 5)
            assert [type(event) for event in first.shards[0].events][:1] == [Loaded]
        async with world(tmp_path / "log") as second:
            second.apply(image(epoch=1))
            assert await second.ask(Read, "a") is ErrorCode.coordinator_load_in_progress
            await second.settled()
            assert await second.ask(Read, "a") == 40
            assert await second.ask(Add, "b") == 6

    asyncio.run(run())


def test_an_answer_waits_for_the_high_watermark_and_other_keys_do_not(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path / "log") as here:
            here.apply(image(replicas=(1, 2)))
            waiting = asyncio.ensure_future(here.ask(Add, "a"))
            await asyncio.sleep(0.02)
            assert not waiting.done()
            assert here.effects == []
            assert await here.ask(Read, "a") == 1  # its `after` says that it depends on nothing newer
            here.follower_has_all("a")
            assert await waiting == 1
            assert here.effects == [("added", 1)]

    asyncio.run(run())


def test_what_is_not_committed_in_time_is_unknown_to_the_client(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path / "log", commit_timeout_ms=50) as here:
            here.apply(image(replicas=(1, 2)))
            assert await here.ask(Add, "a") is ErrorCode.request_timed_out
            here.follower_has_all("a")
            await asyncio.sleep(0.01)
            assert await here.ask(Read, "a") == 1

    asyncio.run(run())


def test_a_lost_lead_answers_what_waits_and_a_new_epoch_loads_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path / "log") as here:
            here.apply(image(replicas=(1, 2)))
            waiting = asyncio.ensure_future(here.ask(Add, "a"))
            await asyncio.sleep(0)
            here.apply(image(replicas=(1, 2), leader=2, epoch=1, offset=2))
            assert await waiting is ErrorCode.not_coordinator
            assert await here.ask(Read, "a") is ErrorCode.not_coordinator
            here.apply(image(replicas=(1, 2), leader=1, epoch=2, offset=3))
            await here.settled()
            # What the old epoch appended is in the log, but not committed: nobody hears of it yet.
            reading = asyncio.ensure_future(here.ask(Read, "a"))
            await asyncio.sleep(0.02)
            assert not reading.done()
            here.follower_has_all("a")
            assert await reading == 1

    asyncio.run(run())


def test_too_few_replicas_refuse_what_may_append_and_serve_the_rest(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path / "log") as here:
            made = image(replicas=(1, 2))
            here.apply(made)
            hosted = here.partitions.get(TOPIC, partition_for("a", 2))
            assert hosted is not None
            hosted.replica.min_insync_replicas = 2
            hosted.replica.isr = (1,)
            assert await here.ask(Add, "a") is ErrorCode.coordinator_not_available
            assert await here.ask(Read, "a") is None

    asyncio.run(run())


@pytest.mark.slow
def test_a_defect_drops_the_state_and_the_log_brings_it_back(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path / "log") as here:
            here.apply(image())
            assert await here.ask(Add, "a") == 1
            assert await here.ask(Add, "a", amount=-1) is ErrorCode.coordinator_not_available
            assert await here.ask(Read, "a") is ErrorCode.coordinator_not_available
            deadline_ms = monotonic_ms() + 60_000
            while (answer := await here.ask(Read, "a")) != 1:
                assert monotonic_ms() < deadline_ms, answer
                await asyncio.sleep(0.02)

    asyncio.run(run())


def test_a_shard_whose_log_cannot_be_written_is_given_up_and_the_others_serve(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path / "log") as here:
            here.apply(image())
            key, other = _keys_of_two_partitions()
            assert (await here.ask(Add, key), await here.ask(Add, other)) == (1, 1)
            hosted = here.partitions.get(TOPIC, partition_for(key, 2))
            assert hosted is not None

            def fail(*_: object, **__: object) -> None:
                raise OSError(28, "No space left on device")

            hosted.log.append = fail  # type: ignore[assignment]
            assert await here.ask(Add, key) is ErrorCode.not_coordinator
            here.host.image_changed()  # as the broker tells when a partition went offline
            assert await here.ask(Read, key) is ErrorCode.not_coordinator
            assert await here.ask(Add, other) == 2
            assert here.partitions.offline() == [hosted.key]

    asyncio.run(run())


def test_a_shard_whose_log_cannot_be_read_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        key, other = _keys_of_two_partitions()
        async with world(tmp_path / "log") as first:
            first.apply(image())
            assert (await first.ask(Add, key), await first.ask(Add, other)) == (1, 1)
        async with world(tmp_path / "log") as second:
            read, sick = PartitionLog.read, f"{TOPIC}-{partition_for(key, 2)}"

            def fail(self: PartitionLog, *values: int) -> bytes:
                if self.name == sick:
                    raise OSError(5, "Input/output error")
                return read(self, *values)

            monkeypatch.setattr(PartitionLog, "read", fail)
            second.apply(image(epoch=1))
            await second.settled()
            assert await second.ask(Read, key) is ErrorCode.not_coordinator
            assert await second.ask(Read, other) == 1
            assert second.partitions.offline() == [(TOPIC, partition_for(key, 2))]

    asyncio.run(run())


def test_a_record_that_nobody_can_read_is_left_out_and_the_others_are_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`__admin_client` may write anything to such a topic. One record kept the coordinator from its work for good."""
    odd = [
        *(encode_batch([value], timestamps_ms=1, keys=[key]) for key, value in ((b"a", b"no number"), (b"\xff", b"1"))),
        encode_batch([None], timestamps_ms=1, keys=[b"a"]),  # this shard knows no tombstones
        unreadable(),
        foreign_name(),  # its header is not looked at, and its value is no number
    ]

    async def run() -> None:
        async with world(tmp_path / "log") as first:
            first.apply(image())
            assert await first.ask(Add, "a") == 1
            hosted = first.partitions.get(TOPIC, partition_for("a", 2))
            assert hosted is not None
            for batch in odd:
                hosted.log.append(batch, leader_epoch=0)
            assert await first.ask(Add, "a") == 2
        async with world(tmp_path / "log") as second:
            second.apply(image(epoch=1))
            await second.settled()
            assert await second.ask(Read, "a") == 2
            assert second.partitions.offline() == []

    asyncio.run(run())
    told = capsys.readouterr().err
    assert told.count("coordinator_record_left_out") == len(odd)
    assert f"left_out={len(odd)}" in told


def test_records_that_are_deleted_while_a_shard_loads_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        key, _ = _keys_of_two_partitions()
        async with world(tmp_path / "log") as first:
            first.apply(image())
            for _ in range(40):
                await first.ask(Add, key)
        async with world(tmp_path / "log") as second:
            read, sick, reads = PartitionLog.read, f"{TOPIC}-{partition_for(key, 2)}", list[int]()

            def read_and_delete(self: PartitionLog, offset: int, *values: int) -> bytes:
                data = read(self, offset, *values)
                if self.name == sick:
                    reads.append(offset)
                    if len(reads) == 1:
                        self.advance_log_start(35)
                return data

            monkeypatch.setattr(PartitionLog, "read", read_and_delete)
            second.apply(image(epoch=1))
            await second.settled()
            assert reads[:2] == [0, 35]
            assert await second.ask(Read, key) == 40

    asyncio.run(run())


def _keys_of_two_partitions() -> tuple[str, str]:
    keys = [f"key {number}" for number in range(20)]
    return next(key for key in keys if partition_for(key, 2) == 0), next(
        key for key in keys if partition_for(key, 2) == 1
    )
