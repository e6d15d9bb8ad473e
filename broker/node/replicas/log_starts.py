"""The log start offset: DeleteRecords, retention by time and size, and the log start offsets of the replicas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from broker.log.errors import STORAGE_ERRORS
from broker.log.retention import Expiry, apply_retention
from broker.node.process.clock import wall_ms
from broker.node.process.journal import Journal
from broker.node.process.logs import Logger
from broker.node.replicas.hosted import HostedPartition
from broker.node.replicas.partitions import Partitions
from broker.node.settings.sections.storage import UpkeepSettings
from broker.wire.errors import ErrorCode


class LogStarts:
    def __init__(
        self,
        *,
        partitions: Partitions,
        live: Callable[[], tuple[int, ...]],  # ids of the live brokers
        settings: Callable[[], UpkeepSettings],  # including settings that were changed at run time
        journal: Journal,
        logger: Logger,
    ) -> None:
        self._partitions, self._live, self._settings = partitions, live, settings
        self._journal, self._logger = journal, logger

    def delete_records(self, hosted: HostedPartition, offset: int) -> ErrorCode:
        """The leader deletes records below `offset` (-1: the high watermark). Followers learn it with their next
        fetch."""
        high_watermark = hosted.replica.high_watermark
        wanted = high_watermark if offset == -1 else offset
        if not 0 <= wanted <= high_watermark:
            return ErrorCode.offset_out_of_range
        if wanted > hosted.log.log_start_offset:
            self._tell(hosted, "delete_records", from_offset=hosted.log.log_start_offset, log_start_offset=wanted)
        try:
            has_moved = hosted.log.advance_log_start(wanted)
        except OSError as error:
            return self._partitions.storage_failed(hosted, error).error_code
        if has_moved:
            self._logger.info("records_deleted", topic=hosted.topic, partition=hosted.index, log_start_offset=wanted)
            hosted.readers.log_start_moved(wakes_followers=True)
        return ErrorCode.none

    def low_watermark(self, hosted: HostedPartition) -> int:
        """The smallest log start offset of the live replicas, as far as the leader knows."""
        others = [replica for replica in hosted.replica.followers if replica in self._live()]
        return min([hosted.log.log_start_offset, *(hosted.follower_log_starts.get(replica, -1) for replica in others)])

    def retain(self) -> None:
        """Applies retention to every log. It uses the wall clock, because record timestamps do."""
        now_ms = wall_ms()
        for hosted in list(self._partitions.all()):
            start_offset = hosted.log.log_start_offset

            def tell(expiry: Expiry, hosted: HostedPartition = hosted) -> None:
                self._tell(hosted, "retention", **asdict(expiry))

            try:
                result = apply_retention(
                    hosted.log, now_ms=now_ms, high_watermark=hosted.replica.high_watermark, before=tell
                )
            except STORAGE_ERRORS as error:
                self._partitions.storage_failed(hosted, error)
                continue
            finally:
                if hosted.log.log_start_offset != start_offset:
                    hosted.readers.log_start_moved(wakes_followers=False)
                    # so that its fetcher compares all partitions again
                    self._partitions.forget_followed(hosted.replica.leader_id)
            hosted.log.producers.forget_idle(now_ms, self._settings().producer_id_expiration_ms)
            if result.deleted_segments:
                facts = asdict(result)
                self._journal.write("segments_deleted", topic=hosted.topic, partition=hosted.index, **facts)
                self._logger.info("segments_deleted", topic=hosted.topic, partition=hosted.index, **facts)

    def _tell(self, hosted: HostedPartition, cause: str, **facts: object) -> None:
        """Before the log start moves. Otherwise a SIGKILL in between would leave a gap that nothing explains."""
        self._journal.write("log_start_advance", topic=hosted.topic, partition=hosted.index, cause=cause, **facts)
