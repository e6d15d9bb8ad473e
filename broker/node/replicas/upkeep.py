"""Work that depends on time: deadlines of the cores, flushes, retention, checkpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.node.process.clock import monotonic_ms
from broker.node.replicas.cores import Cores
from broker.node.replicas.directories import Failures, LogDirectories
from broker.node.replicas.hosted import HostedPartition
from broker.node.replicas.log_starts import LogStarts
from broker.node.replicas.partitions import Partitions
from broker.node.settings.sections.storage import UpkeepSettings
from broker.replication import Tick

TICK_MS = 50  # the maximum delay until a deadline of a core is noticed


class Upkeep:
    def __init__(
        self,
        *,
        partitions: Partitions,
        cores: Cores,
        log_starts: LogStarts,
        directories: LogDirectories,
        settings: Callable[[], UpkeepSettings],  # including settings that were changed at run time
    ) -> None:
        self._partitions, self._cores, self._log_starts = partitions, cores, log_starts
        self._directories, self._settings = directories, settings

    async def run(self) -> None:
        """Handles the deadlines of the cores, flushes, applies retention and writes checkpoints, until cancelled."""
        checkpoint_ms = self._settings().replica_high_watermark_checkpoint_interval_ms
        next_checkpoint_ms = monotonic_ms() + checkpoint_ms
        next_retention_ms = monotonic_ms() + self._settings().log_initial_task_delay_ms
        next_starts_ms = monotonic_ms() + self._settings().log_flush_start_offset_checkpoint_interval_ms
        while True:
            await asyncio.sleep(TICK_MS / 1000)
            now_ms = monotonic_ms()
            for hosted in list(self._cores.timed):
                if self._partitions.get(*hosted.key) is not hosted:
                    del self._cores.timed[hosted]  # the partition is gone, and its core got a late event
                    continue
                deadline_ms = hosted.replica.next_deadline_ms()
                if deadline_ms is not None and deadline_ms <= now_ms:
                    self._cores.perform(hosted, Tick())
                self.flush_if_due(hosted, now_ms)
                if deadline_ms is None and hosted.unflushed_since_ms is None:
                    self._cores.timed.pop(hosted, None)  # until its core gets an event
            if now_ms >= next_retention_ms:
                next_retention_ms = now_ms + self._settings().log_retention_check_interval_ms
                self._log_starts.retain()
            if now_ms >= next_starts_ms:
                next_starts_ms = now_ms + self._settings().log_flush_start_offset_checkpoint_interval_ms
                logs = [hosted.log for hosted in self._partitions.all()]
                self._partitions.directories_failed(self._directories.write_log_start_offsets(logs))
            if now_ms >= next_checkpoint_ms:
                next_checkpoint_ms = now_ms + checkpoint_ms
                self._partitions.directories_failed(self.checkpoint())

    def checkpoint(self) -> Failures:
        """Writes the high watermarks. Returns the directories in which this failed."""
        for hosted in self._partitions.all():
            self._partitions.high_watermarks[hosted.key] = hosted.replica.high_watermark
        return self._directories.write_high_watermarks(self._partitions.high_watermarks)

    def flush_if_due(self, hosted: HostedPartition, now_ms: int) -> None:
        """Applies flush.ms: records are synced to disk at most flush.ms (and one tick) after they were written."""
        flush_ms = hosted.config.flush_ms
        if flush_ms is None or not hosted.log.has_unflushed:
            hosted.unflushed_since_ms = None
        elif hosted.unflushed_since_ms is None:
            hosted.unflushed_since_ms = now_ms
        elif now_ms - hosted.unflushed_since_ms >= flush_ms:
            hosted.unflushed_since_ms = None
            try:
                hosted.log.flush()
            except OSError as error:
                self._partitions.storage_failed(hosted, error)
