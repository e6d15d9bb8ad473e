"""The log cleaner: finds the log with cleanup.policy=compact that has the highest dirty ratio, and compacts it in
slices of a few milliseconds.

Owns: which log is next, the rate (log.cleaner.io.max.bytes.per.second), and the checkpoint with the offset up to which
each log is clean. broker/log/compaction.py decides which records stay in a log. The cleaner runs on the broker's own
event loop between requests. There is no second thread, so a log never changes during a read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import asdict
from uuid import UUID

from broker.log.compaction import Cleanable, CompactionAborted, CompactionResult, compact, find_cleanable
from broker.log.directory import LogDirectory
from broker.log.errors import LogCorruptError
from broker.log.partition_log import PartitionLog
from broker.node.process.clock import monotonic_ms, wall_ms
from broker.node.process.journal import Journal
from broker.node.process.logs import Logger
from broker.node.replicas.hosted import HostedPartition
from broker.node.settings.sections.storage import UpkeepSettings

SLICE_MS = 2  # so long requests may have to wait for the cleaner
LOOK_AGAIN_MS = 200  # short enough to notice a new backoff or a new topic soon


class Cleaner:
    def __init__(
        self,
        *,
        directory_of: Callable[[PartitionLog], LogDirectory],
        hosted: Callable[[], Iterable[HostedPartition]],
        settings: Callable[[], UpkeepSettings],  # including settings that were changed at run time
        storage_failed: Callable[[HostedPartition, Exception], object],
        directory_failed: Callable[[LogDirectory, OSError], None],
        journal: Journal,
        logger: Logger,
    ) -> None:
        self._storage_failed, self._directory_failed = storage_failed, directory_failed
        self._directory_of, self._hosted, self._settings = directory_of, hosted, settings
        self._journal, self._logger = journal, logger
        # logs that cannot be compacted: each is logged once and not tried again
        self._failed: set[tuple[UUID, int]] = set()

    async def run(self) -> None:
        """Cleans logs until cancelled."""
        idle_since_ms = monotonic_ms()
        while True:
            settings = self._settings()
            is_rested = monotonic_ms() - idle_since_ms >= settings.log_cleaner_backoff_ms
            if not settings.log_cleaner_enable or not is_rested:
                await asyncio.sleep(min(LOOK_AGAIN_MS, max(1, settings.log_cleaner_backoff_ms)) / 1000)
                continue
            found = self._dirtiest()
            if found is None:
                idle_since_ms = monotonic_ms()
                await asyncio.sleep(min(LOOK_AGAIN_MS, max(1, settings.log_cleaner_backoff_ms)) / 1000)
                continue
            await self._clean(*found)

    def truncated(self, hosted: HostedPartition, offset: int) -> None:
        """The log was truncated at `offset`. Records from this offset on will be new, so they are not clean."""
        directory = self._directory_of(hosted.log)
        if directory.cleaner_offsets.get(hosted.key, 0) > offset:
            directory.cleaner_offsets[hosted.key] = offset
            directory.write_cleaner_offsets()

    def _dirtiest(self) -> tuple[HostedPartition, Cleanable] | None:
        best: tuple[HostedPartition, Cleanable] | None = None
        now_ms = wall_ms()
        for hosted in list(self._hosted()):
            if not hosted.log.config.is_compacted or (hosted.topic_id, hosted.index) in self._failed:
                continue
            try:
                cleanable = find_cleanable(
                    hosted.log,
                    checkpoint=self._directory_of(hosted.log).cleaner_offsets.get(hosted.key, 0),
                    high_watermark=hosted.replica.high_watermark,
                    now_ms=now_ms,
                )
            except OSError as error:
                self._storage_failed(hosted, error)
                continue
            is_wanted = cleanable.is_due or cleanable.dirty_ratio > hosted.log.config.min_cleanable_dirty_ratio
            if cleanable.dirty_bytes and is_wanted and (best is None or cleanable.dirty_ratio > best[1].dirty_ratio):
                best = hosted, cleanable
        return best

    async def _clean(self, hosted: HostedPartition, cleanable: Cleanable) -> None:
        names = {"topic": hosted.topic, "partition": hosted.index}
        # Before anything is removed. Otherwise a SIGKILL in between would leave gaps that nothing explains.
        self._journal.write(
            "compaction_begun",
            **names,
            first_dirty_offset=cleanable.first_dirty_offset,
            end_offset=cleanable.end_offset,
        )
        try:
            result = await self._run_to_end(hosted, cleanable)
        except CompactionAborted as reason:
            self._logger.info("compaction_aborted", **names, cause=repr(str(reason)))
            return
        except OSError as error:
            # If the topic was deleted meanwhile, its files are closed, and this reports nothing.
            self._storage_failed(hosted, error)
            return
        except LogCorruptError as error:  # as in Kafka, the log is left as it is, and its readers get the error
            self._failed.add((hosted.topic_id, hosted.index))
            self._logger.error("compaction_failed", **names, cause=repr(f"{type(error).__name__}: {error}"))
            return
        if result.clean_until <= cleanable.first_dirty_offset:
            self._failed.add((hosted.topic_id, hosted.index))
            cause = "one batch has more keys than log.cleaner.dedupe.buffer.size holds"
            self._logger.error("compaction_stuck", **names, cause=repr(cause))
            return
        directory = self._directory_of(hosted.log)
        directory.cleaner_offsets[hosted.key] = result.clean_until
        try:
            directory.write_cleaner_offsets()
        except OSError as error:
            self._directory_failed(directory, error)
            return
        self._journal.write("log_compacted", **names, **asdict(result))
        self._logger.info("log_compacted", **names, **asdict(result))

    async def _run_to_end(self, hosted: HostedPartition, cleanable: Cleanable) -> CompactionResult:
        settings = self._settings()
        steps = compact(
            hosted.log,
            cleanable,
            now_ms=wall_ms(),
            map_bytes_max=settings.log_cleaner_dedupe_buffer_size,
        )
        began_ms = slice_began_ms = monotonic_ms()
        total_bytes = 0
        try:
            while True:
                total_bytes += next(steps)
                now_ms = monotonic_ms()
                ahead_ms = total_bytes * 1000 / settings.log_cleaner_io_max_bytes_per_second - (now_ms - began_ms)
                if now_ms - slice_began_ms >= SLICE_MS or ahead_ms > 0:
                    await asyncio.sleep(max(0.0, ahead_ms / 1000))
                    slice_began_ms = monotonic_ms()
        except StopIteration as end:
            result: CompactionResult = end.value
            return result
        finally:
            steps.close()
