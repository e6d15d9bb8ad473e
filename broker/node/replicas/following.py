"""A follower's log: fetched records are appended, and records that diverge from the leader's log are truncated.

Each truncation is written to the journal, from which the harness predicts the lost records. Errors of the storage go to
the caller, which takes the partition offline.
"""

from __future__ import annotations

from broker.log.partition_log import PartitionLog
from broker.node.process.journal import Journal
from broker.node.process.logs import Logger
from broker.node.replicas.cleaner import Cleaner
from broker.node.replicas.cores import Cores
from broker.node.replicas.hosted import HostedPartition
from broker.replication import FetchedFromLeader, Truncated
from broker.wire.records import BatchHeader


class Following:
    def __init__(self, *, cores: Cores, cleaner: Cleaner, journal: Journal, logger: Logger) -> None:
        self._cores, self._cleaner, self._journal, self._logger = cores, cleaner, journal, logger

    def append_fetched(self, hosted: HostedPartition, records: memoryview, headers: list[BatchHeader]) -> None:
        hosted.log.append_as_follower(records, headers=headers)

    def followed_up(self, hosted: HostedPartition, *, leader_epoch: int, leader_high_watermark: int) -> None:
        event = FetchedFromLeader(
            leader_epoch=leader_epoch,
            leader_high_watermark=leader_high_watermark,
            log_end_offset=hosted.log.log_end_offset,
        )
        self._cores.perform(hosted, event)

    def truncate(self, hosted: HostedPartition, offset: int) -> None:
        """Truncates the diverging tail. Writes to the journal which offsets of which leader epoch are gone."""
        log = hosted.log
        gone = _epochs_of_range(log, offset, log.log_end_offset)
        result = log.truncate_to(offset)
        self._cleaner.truncated(hosted, result.to_offset)
        self._cores.perform(hosted, Truncated(log_end_offset=log.log_end_offset))
        for epoch, begin, end in gone:
            begin = max(begin, result.to_offset)
            if begin < end:
                self._journal.truncated(
                    topic=hosted.topic, partition=hosted.index, leader_epoch=epoch, from_offset=end, to_offset=begin
                )
        self._logger.info(
            "truncated",
            topic=hosted.topic,
            partition=hosted.index,
            from_offset=result.from_offset,
            to_offset=result.to_offset,
        )

    def restart_at(self, hosted: HostedPartition, offset: int) -> None:
        """The leader no longer has the next records: drops the whole log and begins at the leader's log start
        offset."""
        log = hosted.log
        gone = _epochs_of_range(log, log.log_start_offset, log.log_end_offset)
        log.truncate_fully_and_start_at(offset)
        self._cleaner.truncated(hosted, 0)
        self._cores.perform(hosted, Truncated(log_end_offset=log.log_end_offset))
        for epoch, begin, end in gone:
            self._journal.truncated(
                topic=hosted.topic,
                partition=hosted.index,
                leader_epoch=epoch,
                from_offset=end,
                to_offset=begin,
                restarted_at=offset,
            )

    def follow_log_start(self, hosted: HostedPartition, leader_log_start_offset: int) -> None:
        """Deletes the records that the leader has deleted, up to the high watermark."""
        reachable = min(leader_log_start_offset, hosted.replica.high_watermark)
        if reachable > hosted.log.log_start_offset:
            hosted.log.advance_log_start(reachable)


def _epochs_of_range(log: PartitionLog, begin: int, end: int) -> list[tuple[int, int, int]]:
    """(leader epoch, first offset, end offset) of each range of one epoch in [begin, end)."""
    stretches = []
    entries = log.epochs.entries
    for position, entry in enumerate(entries):
        stretch_end = entries[position + 1].start_offset if position + 1 < len(entries) else end
        first, last = max(begin, entry.start_offset), min(end, stretch_end)
        if first < last:
            stretches.append((entry.epoch, first, last))
    return stretches
