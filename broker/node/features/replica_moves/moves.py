"""Moves replicas between the log directories of this broker (KIP-113, AlterReplicaLogDirs).

Owns: the future log of each replica that moves. It is a copy in the other directory, named
`<topic>-<partition>.<id>-future`. The steps are Kafka's:

1. The future log follows the log as a follower follows its leader: it copies batches, truncates where the log was
   truncated, and begins where the log begins.
2. When it has caught up, the controller is told the new directory (AssignReplicasToDirs), and the copying goes on.
3. When this broker's own image shows the new directory and the future log has caught up again, the future log gets the
   final name, the replica goes on with its files, and the old log is discarded. This is one turn of the event loop, so
   no record is written in between.

If a process ends before step 3, the next one finds the future log and goes on with it. One that ends within step 3
leaves two complete logs. The image then tells which one counts (`LogDirectories.settle`).

All moves together copy at most replica.alter.log.dirs.io.max.bytes.per.second. Shown by
tests/broker_node/test_node_moves.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from broker.controller.delta import PartitionChange
from broker.controller.image import MetadataImage
from broker.log.directory import LogDirectory
from broker.log.epochs import UNDEFINED_EPOCH
from broker.log.errors import STORAGE_ERRORS, LogError
from broker.log.partition_log import PartitionLog
from broker.node.feature import Kernel, Part
from broker.node.features.replica_moves.throttle import Throttle
from broker.node.process.clock import monotonic_ms
from broker.node.process.logs import Logger
from broker.node.replicas.directories import Failures, Key, LogDirectories
from broker.node.replicas.hosted import HostedPartition
from broker.node.replicas.log_recovery import RunBlocking
from broker.node.replicas.partitions import Partitions
from broker.wire.records import iter_batches

SLICE_BYTES = 1 << 20  # copied in one turn of the event loop: 1 to 2 ms
# Syncs are done in a thread. Meanwhile the replica is written, and the move waits. So a sync may take its time, but the
# swap, which is one turn of the event loop, must find little that is not synced.
UNSYNCED_BYTES_MAX = 4 << 20
IDLE_MS = 10


@dataclass(slots=True, kw_only=True, eq=False)
class Move:
    key: Key
    topic_id: UUID
    directory: LogDirectory  # the destination
    name: str  # The directory that has the future log.
    log: PartitionLog | None = None  # None: not opened yet
    unsynced_bytes: int = 0
    is_promised: bool = False  # the future log had caught up, so the controller is told of the new directory
    is_syncing: bool = False  # a thread has its files
    is_ready: bool = False  # it was synced after the image had the new directory, so the swap has little to sync


class ReplicaMoves(Part):
    """`new_id` makes the ids in the names of future logs. `known_directory` is the directory of a replica of this
    broker in its image. `on_discarded` is called when there are files to remove. `checkpoint` writes the high
    watermarks. `rate` is replica.alter.log.dirs.io.max.bytes.per.second, which may change. `on_directory_changed` is
    called for a replica whose directory has to be told to the controller."""

    def __init__(
        self,
        *,
        node_id: int,
        directories: LogDirectories,
        partitions: Partitions,
        checkpoint: Callable[[], Failures],
        throttle: Throttle,
        rate: Callable[[], int],
        new_id: Callable[[], UUID],
        known_directory: Callable[[Key], UUID | None],
        on_discarded: Callable[[], None],
        on_directory_changed: Callable[[Mapping[Key, UUID | None]], None],
        run_blocking: RunBlocking,
        logger: Logger,
    ) -> None:
        self._node_id, self.directories, self._partitions = node_id, directories, partitions
        self._checkpoint, self._throttle, self._rate, self._new_id = checkpoint, throttle, rate, new_id
        self._on_discarded, self._on_directory_changed = on_discarded, on_directory_changed
        self._known_directory, self._run_blocking, self._logger = known_directory, run_blocking, logger
        self._moves: dict[Key, Move] = {}
        self._has_work = asyncio.Event()
        # Future logs that an earlier process left, until their partitions are hosted.
        self._left = {
            (key, name): directory for directory in directories.working for key, name in directory.futures().items()
        }

    # -- reading

    def of(self, key: Key) -> Move | None:
        return self._moves.get(key)

    # -- requests and images

    def begin(self, hosted: HostedPartition, directory: LogDirectory) -> None:
        """Moves the replica there. Another move of it ends. Nothing happens if it lies there already, or moves there.
        Raises OSError if the future log cannot be made."""
        move = self._moves.get(hosted.key)
        if move is not None and move.directory is not directory:
            self._cancel(move)
            move = None
        if move is not None or self.directories.of_log(hosted.log) is directory:
            return
        name = directory.new_future(*hosted.key, unique=self._new_id(), topic_id=str(hosted.topic_id))
        self._add(Move(key=hosted.key, topic_id=hosted.topic_id, directory=directory, name=name))

    def replica_changed(self, change: PartitionChange) -> None:
        """Goes on with what an earlier process left."""
        key = (change.topic, change.partition)
        hosted = self._partitions.get(*key)
        if not self._left or hosted is None:
            return
        for (left, name), directory in list(self._left.items()):
            if left != key:
                continue
            del self._left[left, name]
            is_ours = directory.topic_id_at(name) == str(hosted.topic_id)
            is_elsewhere = self.directories.of_log(hosted.log) is not directory
            if is_ours and is_elsewhere and key not in self._moves and directory in self.directories.working:
                self._add(Move(key=key, topic_id=hosted.topic_id, directory=directory, name=name))
            else:
                self._discard(directory, name)

    def image_changed(self, image: MetadataImage, *, is_current: bool) -> None:
        """Discards future logs that an earlier process left and whose partition is not on this broker any more."""
        if not is_current:
            return
        for ((topic, index), name), directory in list(self._left.items()):
            state = image.partition(topic, index)
            if state is None or self._node_id not in state.replicas:
                del self._left[(topic, index), name]
                self._discard(directory, name)

    def _add(self, move: Move) -> None:
        self._moves[move.key] = move
        self._has_work.set()
        self._logger.info("move_began", topic=move.key[0], partition=move.key[1], directory=move.directory.path)

    # -- the work

    async def run(self) -> None:
        """Moves replicas until cancelled."""
        while True:
            await self._has_work.wait()
            has_copied = False
            for move in list(self._moves.values()):
                has_copied |= await self._advance(move)
                await asyncio.sleep(0)
            if not self._moves:
                self._has_work.clear()
            elif not has_copied:
                await asyncio.sleep(IDLE_MS / 1000)

    async def _advance(self, move: Move) -> bool:
        """Whether something was copied."""
        if move.log is None and self._moves.get(move.key) is move:
            await self._open(move)
        hosted = self._hosted_of(move)
        self._throttle.set_rate(self._rate())
        if hosted is None or move.log is None or self._throttle.is_exceeded(monotonic_ms()):
            return False
        try:
            data = self._next_batches(hosted, move.log)
        except STORAGE_ERRORS as error:
            self._partitions.storage_failed(hosted, error)
            return False
        try:
            if data:
                self._append(move, move.log, data)
                if move.unsynced_bytes >= UNSYNCED_BYTES_MAX:
                    await self._sync(move, move.log)
                return True
            await self._caught_up(hosted, move, move.log)
        except OSError as error:
            self._partitions.directory_failed(move.directory, error)
            self._forget(move)
        except LogError as error:
            self._logger.error("move_failed", topic=move.key[0], partition=move.key[1], cause=repr(str(error)))
            self._cancel(move)
        return False

    def _hosted_of(self, move: Move) -> HostedPartition | None:
        """The partition, if the move goes on."""
        if self._moves.get(move.key) is not move:
            return None
        hosted = self._partitions.get(*move.key)
        if move.directory not in self.directories.working or self._partitions.is_offline(*move.key):
            self._forget(move)  # the next process may go on with the future log
        elif hosted is None or hosted.topic_id != move.topic_id:
            self._cancel(move)
        else:
            return hosted
        return None

    async def _open(self, move: Move) -> None:
        hosted = self._hosted_of(move)
        if hosted is None:
            return
        opened: list[PartitionLog] = []
        config = hosted.log.config

        def work() -> None:
            opened.append(move.directory.open_future(*move.key, move.name, config))

        try:
            await self._run_blocking(work)
        except OSError as error:
            self._partitions.directory_failed(move.directory, error)
            self._forget(move)
            return
        except (LogError, ValueError) as error:  # damaged: it is only a copy
            self._logger.warning("move_anew", topic=move.key[0], partition=move.key[1], cause=repr(str(error)))
            self._begin_anew(hosted, move)
            return
        if self._moves.get(move.key) is move:
            move.log = opened[0]
        else:  # it was cancelled meanwhile, and the files may be gone
            opened[0].abandon()

    def _begin_anew(self, hosted: HostedPartition, move: Move) -> None:
        self._cancel(move)
        try:
            self.begin(hosted, move.directory)
        except OSError as error:
            self._partitions.directory_failed(move.directory, error)

    def _next_batches(self, hosted: HostedPartition, future: PartitionLog) -> bytes:
        """What the future log lacks, at most a slice. It is truncated first where the logs diverge."""
        log = hosted.log
        if future.config is not log.config:
            future.config = log.config
        if not future.log_start_offset <= log.log_start_offset <= future.log_end_offset:
            future.truncate_fully_and_start_at(log.log_start_offset)
        future.truncate_to(_common_end(log, future))
        if log.log_start_offset > future.log_start_offset:
            future.advance_log_start(log.log_start_offset)
        if future.log_end_offset >= log.log_end_offset:
            return b""
        return log.read(future.log_end_offset, SLICE_BYTES)

    def _append(self, move: Move, future: PartitionLog, data: bytes) -> None:
        headers = [batch.header for batch in iter_batches(data)]
        begins_at = headers[0].base_offset
        if begins_at < future.log_end_offset:
            # It is empty. DeleteRecords has moved the start of the log into the middle of this batch.
            start = future.log_start_offset
            future.truncate_fully_and_start_at(begins_at)
            future.append_as_follower(data, headers=headers)
            future.advance_log_start(start)
        else:
            future.append_as_follower(data, headers=headers)
        self._throttle.record(len(data), monotonic_ms())
        move.unsynced_bytes += len(data)

    async def _sync(self, move: Move, future: PartitionLog) -> bool:
        """Whether the move goes on. Raises OSError."""
        move.is_syncing, move.unsynced_bytes = True, 0
        try:
            await self._run_blocking(future.flush)
        finally:
            move.is_syncing = False
            if self._moves.get(move.key) is not move:
                future.abandon()  # it ended meanwhile
        return self._moves.get(move.key) is move

    async def _caught_up(self, hosted: HostedPartition, move: Move, future: PartitionLog) -> None:
        directory_id = move.directory.directory_id
        if directory_id is None or self._known_directory(move.key) == directory_id:
            if move.is_ready:
                self._swap(hosted, move, future)
            else:
                move.is_ready = await self._sync(move, future)
        elif not move.is_promised and await self._sync(move, future):
            move.is_promised = True
            self._tell_directory(move.key, move.directory)

    def _swap(self, hosted: HostedPartition, move: Move, future: PartitionLog) -> None:
        source = self.directories.of_log(hosted.log)
        was_compacted = move.key in source.cleaner_offsets or hosted.log.config.is_compacted
        hosted.log.move_into(move.directory.promote(*move.key, future, was_compacted=was_compacted))
        self.directories.moved(move.key, move.directory)
        self._forget(move)
        try:
            source.discard_log(*move.key)
            self._on_discarded()
        except OSError as error:
            self._partitions.directory_failed(source, error)
        self._partitions.directories_failed(self._checkpoint())
        self._logger.info("move_done", topic=move.key[0], partition=move.key[1], directory=move.directory.path)

    # -- the end of a move

    def _cancel(self, move: Move) -> None:
        self._forget(move)
        self._discard(move.directory, move.name)

    def _forget(self, move: Move) -> None:
        if self._moves.get(move.key) is move:
            del self._moves[move.key]
            if move.log is not None and not move.is_syncing:
                move.log.abandon()
            if move.is_promised:
                self._tell_directory(move.key, None)

    def _tell_directory(self, key: Key, promised: LogDirectory | None) -> None:
        """The controller is told this directory. None: that in which the replica lies."""
        self.directories.promise(key, promised)
        self._on_directory_changed({key: self._partitions.directory_id(*key)})

    def _discard(self, directory: LogDirectory, name: str) -> None:
        if directory not in self.directories.working:
            return
        try:
            directory.discard_future(name)
            self._on_discarded()
        except OSError as error:
            self._partitions.directory_failed(directory, error)

    def close(self) -> None:
        """Before a stop. The next process goes on with the future logs."""
        for move in list(self._moves.values()):
            if move.log is not None:
                try:
                    move.log.close()
                except OSError as error:  # the next process recovers it
                    self._logger.error("future_not_closed", directory=move.directory.path, cause=repr(str(error)))
        self._moves.clear()


def open_moves(kernel: Kernel) -> ReplicaMoves:
    node_id, settings, replicas = kernel.config.node_id, kernel.config.replication, kernel.replicas

    def known_directory(key: Key) -> UUID | None:
        state = kernel.image().partition(*key)
        return None if state is None else state.directory_of(node_id)

    moves = ReplicaMoves(
        node_id=node_id,
        directories=replicas.directories,
        partitions=replicas.partitions,
        checkpoint=replicas.upkeep.checkpoint,
        throttle=Throttle(
            window_count=settings.alter_log_dirs_replication_quota_window_num,
            window_size_ms=settings.alter_log_dirs_replication_quota_window_size_seconds * 1000,
        ),
        rate=lambda: replicas.config_in_effect().replication.replica_alter_log_dirs_io_max_bytes_per_second,
        new_id=kernel.new_id,
        known_directory=known_directory,
        on_discarded=replicas.recovery.remove_soon,
        on_directory_changed=kernel.directories_changed,
        run_blocking=kernel.run_blocking,
        logger=kernel.logger,
    )
    kernel.spawn(moves.run())
    return moves


def _common_end(log: PartitionLog, future: PartitionLog) -> int:
    """The end of the part of the future log that the log has too (KIP-101). Both are on this broker, so an offset and
    its leader epoch identify a record."""
    end = min(future.log_end_offset, log.log_end_offset)
    epochs = future.epochs
    while end > future.log_start_offset:
        epoch = epochs.epoch_at(end - 1)
        if epoch == UNDEFINED_EPOCH:
            break  # nothing tells that it diverges
        found, found_end = log.epochs.end_offset_for(epoch, log.log_end_offset)
        if found == epoch:
            return min(end, found_end)
        # The log does not have this epoch (any more): what the future log has of it diverges.
        first = next((each.start_offset for each in epochs.entries if each.epoch == epoch), future.log_start_offset)
        if first >= end:
            break
        end = first
    return max(end, future.log_start_offset)
