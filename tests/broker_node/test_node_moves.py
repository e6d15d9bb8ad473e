"""A replica moves between the log directories of its broker: it loses nothing, wherever the process ends."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import wraps
from uuid import UUID

import pytest
from directories_helper import PATHS, TOPIC, TOPIC_ID, Broker, fail, new_disk

from broker.log.errors import LogError
from broker.log.partition_log import PartitionLog
from broker.node.features.replica_moves import moves as moves_module
from broker.sim.disk import Death, SimDisk
from broker.sim.scheduler import Scheduler
from broker.wire.errors import ErrorCode
from broker.wire.records import encode_batch, iter_batches

KEY = (TOPIC, 0)
DEADLINE_S = 120.0


def looped(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        asyncio.run(asyncio.wait_for(_run(test), DEADLINE_S))

    return run


async def _run(test: Callable[[], Awaitable[None]]) -> None:
    await test()


def contents(log: PartitionLog) -> bytes:
    """Every batch of the log."""
    found, offset = b"", log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 30)
        found += data
        offset = log_end(data)
    return found


def log_end(data: bytes) -> int:
    return [batch.header.next_offset for batch in iter_batches(data)][-1]


def names(broker: Broker, path: str) -> list[str]:
    return [each for each in broker.filesystem.list_directory(path) if each.startswith(f"{TOPIC}-")]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


async def told(broker: Broker) -> None:
    """The future log has caught up, and the controller is told the new directory. It writes that."""
    await until(lambda: bool(broker.told_directories))
    (key, directory_id) = broker.told_directories[-1]
    broker.apply(1, epoch=broker.image.offset, where={key[1]: directory_id})


async def moved(broker: Broker) -> None:
    await told(broker)
    await until(lambda: broker.moves.of(KEY) is None)


@looped
async def test_a_replica_moves_while_it_is_written_and_read() -> None:
    disk = new_disk()
    broker = Broker(disk)
    broker.apply(1)
    for _ in range(20):
        assert broker.append(0, size_bytes=100_000) is ErrorCode.none
    log = broker.hosted(0).log
    task = asyncio.ensure_future(broker.moves.run())
    broker.moves.begin(broker.hosted(0), broker.directory("/b"))
    assert names(broker, "/b")[0].endswith("-future")
    await asyncio.sleep(0)
    for _ in range(10):
        assert broker.append(0) is ErrorCode.none
        await asyncio.sleep(0)
    await told(broker)
    assert broker.path(0) == "/a"
    assert broker.append(0) is ErrorCode.none
    before = contents(log)
    await until(lambda: broker.moves.of(KEY) is None)
    assert broker.path(0) == "/b"
    assert broker.hosted(0).log is log, "whoever reads or writes it goes on"
    assert contents(log) == before
    assert names(broker, "/b") == ["t-0"]
    assert names(broker, "/a") == [f"t-0.{TOPIC_ID}-delete"]
    assert broker.append(0) is ErrorCode.none
    assert log.log_end_offset == 96
    log.check_invariants()
    whole = contents(log)
    task.cancel()
    broker.replicas.close()
    again = Broker(disk)
    again.apply(1, epoch=90, where={0: again.id_of("/b")})
    assert (again.path(0), contents(again.hosted(0).log)) == ("/b", whole)


@looped
async def test_the_future_log_follows_truncations_and_the_start_of_the_log() -> None:
    broker = Broker(new_disk())
    broker.apply(1)
    for epoch in (1, 5, 9):
        broker.apply(1, epoch=epoch)
        for _ in range(4):
            broker.append(0)
    hosted = broker.hosted(0)
    broker.moves.begin(hosted, broker.directory("/b"))
    task = asyncio.ensure_future(broker.moves.run())
    await until(lambda: bool(broker.told_directories))
    move = broker.moves.of(KEY)
    assert move is not None
    assert move.log is not None
    assert contents(move.log) == contents(hosted.log)
    hosted.log.truncate_to(14)  # in the second epoch, and other records follow
    broker.apply(1, epoch=11)
    for _ in range(3):
        broker.append(0, size_bytes=9)
    await until(lambda: move.log is not None and move.log.log_end_offset == hosted.log.log_end_offset)
    await until(lambda: move.log is not None and contents(move.log) == contents(hosted.log))
    hosted.log.advance_log_start(4)
    await until(lambda: move.log is not None and move.log.log_start_offset == 4)
    hosted.log.truncate_fully_and_start_at(2)
    hosted.log.append(encode_batch([b"value"] * 3, timestamps_ms=1), leader_epoch=11)
    await until(lambda: move.log is not None and move.log.log_end_offset == 5)
    assert contents(move.log) == contents(hosted.log)
    await moved(broker)
    assert broker.path(0) == "/b"
    task.cancel()


@looped
async def test_a_log_that_begins_in_the_middle_of_a_batch_moves_with_its_start() -> None:
    disk = new_disk()
    broker = Broker(disk)
    broker.apply(1)
    for _ in range(3):
        broker.append(0)
    hosted = broker.hosted(0)
    hosted.replica.high_watermark = 9  # type: ignore[misc]
    hosted.log.advance_log_start(4)
    broker.moves.begin(hosted, broker.directory("/b"))
    task = asyncio.ensure_future(broker.moves.run())
    await moved(broker)
    task.cancel()
    assert (hosted.log.log_start_offset, hosted.log.log_end_offset) == (4, 9)
    again = Broker(disk)  # killed: nothing was closed
    again.apply(1, epoch=90, where={0: again.id_of("/b")})
    assert (again.hosted(0).log.log_start_offset, again.hosted(0).log.log_end_offset) == (4, 9)


@looped
async def test_a_move_is_not_begun_twice_and_can_be_taken_back() -> None:
    broker = Broker(new_disk(), paths=("/a", "/b", "/c"))
    broker.apply(1)
    broker.append(0)
    hosted = broker.hosted(0)
    broker.moves.begin(hosted, broker.directory("/a"))
    assert broker.moves.of(KEY) is None
    broker.moves.begin(hosted, broker.directory("/b"))
    first = broker.moves.of(KEY)
    broker.moves.begin(hosted, broker.directory("/b"))
    assert broker.moves.of(KEY) is first
    broker.moves.begin(hosted, broker.directory("/c"))
    assert names(broker, "/b")[0].endswith("-delete")
    broker.moves.begin(hosted, broker.directory("/a"))
    assert broker.moves.of(KEY) is None
    assert names(broker, "/c")[0].endswith("-delete")
    assert names(broker, "/a") == ["t-0"]


@looped
async def test_a_move_that_is_taken_back_when_it_was_told_is_told_again() -> None:
    broker = Broker(new_disk())
    broker.apply(1)
    broker.append(0)
    task = asyncio.ensure_future(broker.moves.run())
    broker.moves.begin(broker.hosted(0), broker.directory("/b"))
    await until(lambda: bool(broker.told_directories))
    assert broker.told_directories[-1] == (KEY, broker.id_of("/b"))
    broker.moves.begin(broker.hosted(0), broker.directory("/a"))
    assert broker.told_directories[-1] == (KEY, broker.id_of("/a"))
    task.cancel()


@looped
async def test_the_next_process_goes_on_with_a_move() -> None:
    disk = new_disk()
    broker = Broker(disk)
    broker.apply(1)
    for _ in range(5):
        broker.append(0, size_bytes=400_000)
    broker.moves.begin(broker.hosted(0), broker.directory("/b"))
    task = asyncio.ensure_future(broker.moves.run())
    await until(lambda: (move := broker.moves.of(KEY)) is not None and move.log is not None)
    await asyncio.sleep(0)
    task.cancel()
    whole = contents(broker.hosted(0).log)
    for is_killed in (True, False):
        if not is_killed:
            broker.moves.close()
            broker.replicas.close()
        broker = Broker(disk)
        broker.apply(1, epoch=50 + is_killed)
        assert broker.moves.of(KEY) is not None
        assert broker.path(0) == "/a"
    task = asyncio.ensure_future(broker.moves.run())
    await moved(broker)
    task.cancel()
    assert (broker.path(0), contents(broker.hosted(0).log)) == ("/b", whole)


@looped
async def test_future_logs_that_nobody_needs_go() -> None:
    """The partition is gone, was made anew, or its log lies in that directory already."""
    for next_topic, count in ((TOPIC_ID, 0), (UUID(int=8), 1)):
        disk = new_disk()
        broker = Broker(disk)
        broker.apply(1)
        broker.moves.begin(broker.hosted(0), broker.directory("/b"))
        again = Broker(disk)
        again.apply(count, epoch=1, topic_id=next_topic)
        again.moves.image_changed(again.image, is_current=True)
        assert again.moves.of(KEY) is None
        assert all(not each.endswith("-future") for each in names(again, "/b"))


@looped
async def test_a_partition_that_goes_takes_its_future_log_along() -> None:
    broker = Broker(new_disk())
    broker.apply(1)
    broker.append(0)
    task = asyncio.ensure_future(broker.moves.run())
    broker.moves.begin(broker.hosted(0), broker.directory("/b"))
    await until(lambda: bool(broker.told_directories))
    broker.apply(0)
    await until(lambda: broker.moves.of(KEY) is None)
    assert [each for each in names(broker, "/b") if not each.endswith("-delete")] == []
    task.cancel()


@looped
async def test_the_destination_that_fails_costs_the_move_and_not_the_replica() -> None:
    disk = new_disk()
    broker = Broker(disk)
    broker.apply(1)
    broker.append(0)
    fail(disk, "-future/")
    task = asyncio.ensure_future(broker.moves.run())
    broker.moves.begin(broker.hosted(0), broker.directory("/b"))
    await until(lambda: broker.moves.of(KEY) is None)
    assert [each.path for each in broker.directories.working] == ["/a"]
    assert broker.append(0) is ErrorCode.none
    assert broker.path(0) == "/a"
    task.cancel()


@looped
async def test_the_source_that_fails_ends_the_move_and_keeps_the_copy() -> None:
    disk = new_disk()
    broker = Broker(disk)
    broker.apply(1)
    broker.append(0)
    broker.moves.begin(broker.hosted(0), broker.directory("/b"))
    task = asyncio.ensure_future(broker.moves.run())
    fail(disk, "/a/t-0/", "read")
    await until(lambda: broker.moves.of(KEY) is None)
    assert broker.partitions.offline() == [KEY]
    assert names(broker, "/b")[0].endswith("-future")
    task.cancel()
    disk.failures.clear()
    again = Broker(disk)
    again.apply(1, epoch=1)
    assert again.moves.of(KEY) is not None
    assert again.path(0) == "/a"


class SlowSyncs:
    """Threads whose syncs wait until they are let through."""

    def __init__(self, broker: Broker) -> None:
        self.waiting: list[PartitionLog] = []
        self._go = asyncio.Event()
        self._original, broker.moves._run_blocking = broker.moves._run_blocking, self._run

    async def _run(self, work: Callable[[], None]) -> None:
        log = getattr(work, "__self__", None)
        if isinstance(log, PartitionLog):
            self.waiting.append(log)
            await self._go.wait()
            self.waiting.remove(log)
        await self._original(work)

    def let_through(self) -> None:
        self._go.set()


@looped
async def test_while_a_copy_is_synced_the_replica_is_written() -> None:
    broker = Broker(new_disk())
    broker.apply(1)
    for _ in range(50):
        assert broker.append(0, size_bytes=100_000) is ErrorCode.none
    syncs = SlowSyncs(broker)
    task = asyncio.ensure_future(broker.moves.run())
    broker.moves.begin(broker.hosted(0), broker.directory("/b"))
    await until(lambda: bool(syncs.waiting))
    (future,) = syncs.waiting
    copied = future.log_end_offset
    assert copied < broker.hosted(0).log.log_end_offset, "4 MiB of 5"
    for _ in range(3):
        assert broker.append(0) is ErrorCode.none
        await asyncio.sleep(0)
    assert future.log_end_offset == copied
    syncs.let_through()
    await moved(broker)
    assert broker.path(0) == "/b"
    assert not broker.hosted(0).log.has_unflushed
    task.cancel()


@looped
async def test_a_move_that_ends_while_it_is_synced_leaves_its_files_to_the_thread_until_then() -> None:
    broker = Broker(new_disk())
    broker.apply(1)
    assert broker.append(0) is ErrorCode.none
    syncs = SlowSyncs(broker)
    task = asyncio.ensure_future(broker.moves.run())
    broker.moves.begin(broker.hosted(0), broker.directory("/b"))
    await until(lambda: bool(syncs.waiting))
    (future,) = syncs.waiting
    broker.moves.begin(broker.hosted(0), broker.directory("/a"))
    assert broker.moves.of(KEY) is None
    assert future.has_unflushed
    syncs.let_through()
    await until(lambda: not syncs.waiting)
    await until(lambda: not future.has_unflushed)
    assert broker.told_directories == []
    assert broker.path(0) == "/a"
    broker.moves.begin(broker.hosted(0), broker.directory("/b"))
    await moved(broker)
    assert broker.path(0) == "/b"
    task.cancel()


@pytest.mark.thorough
@looped
async def test_moves_copy_no_more_than_their_rate() -> None:
    broker = Broker(new_disk())
    broker.apply(1)
    for _ in range(20):
        broker.append(0, size_bytes=400_000)
    now_ms = [0]
    original, moves_module.monotonic_ms = moves_module.monotonic_ms, lambda: now_ms[0]
    try:
        broker.moves_rate = 2_000_000
        broker.moves.begin(broker.hosted(0), broker.directory("/b"))
        task = asyncio.ensure_future(broker.moves.run())
        sizes = [0]
        while sizes[-1] < broker.hosted(0).log.size_bytes:  # it gets there, in more turns if the host is busy
            now_ms[0] = (len(sizes) - 1) * 1_000
            await asyncio.sleep(0.05)
            move = broker.moves.of(KEY)
            assert move is not None
            sizes.append(move.log.size_bytes if move.log else 0)
        task.cancel()
    finally:
        moves_module.monotonic_ms = original
    assert sizes[1] < 5_000_000
    assert all(size <= 2_000_000 * (second + 1) + 3_000_000 for second, size in enumerate(sizes[1:]))


# -- the end of a process at any moment ----------------------------------------------------------------------------


async def killed_in_a_move(disk: SimDisk, operations: int) -> tuple[bool, bytes, bool]:
    """A broker that ends after so many changes of its disk within a move. Returns whether it ended, what its log held,
    and whether its image had the new directory by then."""
    ended: list[bool] = []
    broker = Broker(disk)

    def end() -> None:
        ended.append(True)
        broker.filesystem.detach()

    broker.apply(1)
    for _ in range(4):
        broker.append(0, size_bytes=2_000)
    broker.hosted(0).log.flush()
    broker.hosted(0).log.assign_epoch(3)  # appends nothing in it
    whole = contents(broker.hosted(0).log)
    disk.death = Death(operations=operations, die=end)
    task = asyncio.ensure_future(broker.moves.run())
    is_known = False
    try:
        broker.moves.begin(broker.hosted(0), broker.directory("/b"))
        await until(lambda: bool(broker.told_directories or ended or task.done()))
        if not ended:
            is_known = True
            broker.apply(1, epoch=50, where={0: broker.id_of("/b")})
            await until(lambda: bool(broker.moves.of(KEY) is None or ended or task.done()))
            if not ended:
                broker.directory("/a").remove_discarded()
    except (OSError, AssertionError, LogError, ValueError):
        assert ended, "only a dead process may see its files go"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    disk.death = None
    return bool(ended), whole, is_known


@pytest.mark.thorough
@pytest.mark.parametrize("of_power", [False, True])
def test_wherever_a_process_ends_the_next_one_has_every_record(of_power: bool) -> None:
    async def run() -> int:
        for operations in range(1, 200):
            disk = SimDisk(scheduler=Scheduler(), rng=random.Random(operations), name="disk")
            is_ended, whole, is_known = await killed_in_a_move(disk, operations)
            if is_ended and of_power:
                disk.lose_power(1.0)
            again = Broker(disk)
            where = again.id_of("/b") if is_known else again.id_of("/a")
            again.apply(1, epoch=90, where={0: where})
            log = again.hosted(0).log
            assert contents(log) == whole, f"after {operations} operations"
            assert log.latest_epoch >= 0
            log.check_invariants()
            kept = [name for path in PATHS for name in names(again, path) if name == "t-0"]
            assert kept == ["t-0"], "one log is left"
            task = asyncio.ensure_future(again.moves.run())
            again.apply(1, epoch=91, where={0: again.id_of("/b")})
            await until(lambda broker=again: broker.moves.of(KEY) is None)  # type: ignore[misc]
            task.cancel()
            assert contents(log) == whole
            if not is_ended:
                return operations
        return 0

    assert asyncio.run(asyncio.wait_for(run(), 120)) > 20, "every step of a move was interrupted"
