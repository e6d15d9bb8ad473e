"""Reads a partition for one reader: whether the request is valid, where the reader's log diverges, and the records.

Consumers read up to the high watermark, with isolation_level 1 up to the last stable offset. Replicas read up to the
end of the log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.log.errors import STORAGE_ERRORS, OffsetOutOfRangeError
from broker.log.transaction_index import AbortedTransaction
from broker.node.handlers.read_replicas import NOBODY, preferred_replica
from broker.node.handlers.services import Services
from broker.node.replicas.fetch_sessions import AskedPartition, CachedPartition, Reader
from broker.node.replicas.hosted import HostedPartition
from broker.node.settings.values import RACK_AWARE
from broker.replication import EpochEnd, diverging_epoch
from broker.wire.errors import ErrorCode
from broker.wire.records import last_batch_next_offset

LEADER_HINT_ERRORS = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch})  # KIP-951
_NONE = ErrorCode.none  # looked up once, because each access to a member of an enum costs 70 ns


@dataclass(slots=True, kw_only=True)
class Read:
    """The answer for one partition. If `is_final`, the request must be answered at once, because waiting cannot improve
    the answer."""

    asked: AskedPartition
    error: ErrorCode = _NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    aborted: list[AbortedTransaction] | None = None  # None: read_uncommitted
    log_start_offset: int = -1
    records: bytes = b""
    diverging: EpochEnd | None = None
    has_new_start: bool = False  # Only a replica is told that the log start offset has risen.
    is_at_end: bool = False  # the reader has read everything that there is now
    hosted: HostedPartition | None = None
    cached: CachedPartition | None = None
    preferred_replica: int = NOBODY  # the replica from which the consumer should read instead

    @property
    def is_final(self) -> bool:
        return (
            self.error is not _NONE
            or self.diverging is not None
            or self.has_new_start
            or self.preferred_replica != NOBODY
        )

    @property
    def is_plain(self) -> bool:
        """Whether the answer needs no field that only the general encoder can write."""
        return (
            self.diverging is None
            and not self.aborted
            and self.error not in LEADER_HINT_ERRORS
            and self.preferred_replica == NOBODY
        )


class PartitionReads:
    """The reads of one request."""

    __slots__ = (
        "_is_read_committed",
        "_is_replica",
        "_listener",
        "_may_follow",
        "_may_read",
        "_rack",
        "_replica_id",
        "_services",
    )

    def __init__(
        self,
        services: Services,
        reader: Reader,
        may_read: Callable[[str | None], bool] | None = None,
        *,
        may_follow: bool = False,
        rack: str = "",
        listener: str = "",
    ) -> None:
        """`may_read(topic)` tells whether the reader may read a topic (None: an unknown topic). If `may_read` itself is
        None, the reader may read all. `may_follow` is set for a consumer that may also read from followers (KIP-392).
        `rack` is the rack of that consumer, if it told one, and `listener` the listener that it uses."""
        self._services = services
        self._may_read = may_read
        self._may_follow, self._listener = may_follow, listener
        self._rack = (
            rack if rack and may_follow and services.config.replication.replica_selector_class == RACK_AWARE else ""
        )
        self._replica_id, self._is_replica = reader.replica_id, reader.replica_id >= 0
        self._is_read_committed = reader.is_read_committed

    def hosted(self, asked: AskedPartition) -> HostedPartition | None:
        return None if asked.topic is None else self._services.partitions.get(asked.topic, asked.index)

    def check(self, asked: AskedPartition, hosted: HostedPartition) -> ErrorCode:
        if asked.topic_id is not None and asked.topic_id != hosted.topic_id:
            return ErrorCode.inconsistent_topic_id
        error = hosted.replica.check_leader_epoch(asked.current_leader_epoch)
        if error is not _NONE:
            return error
        if not hosted.replica.is_leader:
            return _NONE if self._may_follow else ErrorCode.not_leader_or_follower
        if self._is_replica and self._replica_id not in hosted.replica.followers:
            # In this broker's image the reader is no replica. If it sent the right epoch, one of the two images is out
            # of date.
            is_of_epoch = asked.current_leader_epoch >= 0
            return ErrorCode.unknown_leader_epoch if is_of_epoch else ErrorCode.not_leader_or_follower
        return _NONE

    def diverging(self, asked: AskedPartition, hosted: HostedPartition) -> EpochEnd | None:
        log = hosted.log
        if asked.last_fetched_epoch == log.latest_epoch and asked.offset <= log.log_end_offset:
            # the general rules give the same for a log that ends in the latest epoch and not after this log
            return None

        def lookup(epoch: int) -> EpochEnd | None:
            found, end_offset = hosted.log.end_offset_for_epoch(epoch)
            return None if found < 0 else EpochEnd(epoch=found, end_offset=end_offset)

        return diverging_epoch(
            lookup=lookup,
            last_fetched_epoch=asked.last_fetched_epoch,
            fetch_offset=asked.offset,
            log_start_offset=hosted.log.log_start_offset,
        )

    def read(self, asked: AskedPartition, left_bytes: int, *, is_first: bool) -> Read:
        if self._may_read is not None and not self._may_read(asked.topic):
            return Read(asked=asked, error=ErrorCode.topic_authorization_failed, aborted=[])
        hosted = self.hosted(asked)
        if hosted is None:
            return Read(asked=asked, error=self._absent(asked), aborted=[])
        error = self.check(asked, hosted)
        if error is not _NONE:
            return Read(asked=asked, error=error, hosted=hosted)
        log, high_watermark = hosted.log, hosted.replica.high_watermark
        stable_offset = log.last_stable_offset(high_watermark)
        read = Read(
            asked=asked,
            high_watermark=high_watermark,
            last_stable_offset=stable_offset,
            log_start_offset=log.log_start_offset,
            hosted=hosted,
        )
        if self._is_read_committed:
            read.aborted = []
        if self._rack and hosted.replica.is_leader:
            read.preferred_replica = preferred_replica(
                hosted,
                offset=asked.offset,
                rack=self._rack,
                listener=self._listener,
                image=self._services.metadata.image,
                broker_id=self._services.config.node_id,
            )
            if read.preferred_replica != NOBODY:
                return read
        if self._is_replica and asked.log_start_offset < min(log.log_start_offset, high_watermark):
            read.has_new_start = True
        if asked.last_fetched_epoch >= 0:
            read.diverging = self.diverging(asked, hosted)
            if read.diverging is not None:
                return read
        limit = log.log_end_offset if self._is_replica else high_watermark
        if self._is_read_committed:
            limit = stable_offset
        if limit <= asked.offset <= log.log_end_offset:
            read.is_at_end = True
            return read
        if left_bytes <= 0 and not is_first and log.log_start_offset <= asked.offset <= log.log_end_offset:
            return read
        size_bytes_max = max(0, min(asked.max_bytes, left_bytes))
        try:
            read.records = log.read(asked.offset, size_bytes_max, limit, minimum_one_batch=is_first)
        except OffsetOutOfRangeError:
            if not self._is_replica:  # a replica needs the log start offset, which is in the same answer
                return Read(asked=asked, error=ErrorCode.offset_out_of_range, hosted=hosted)
            read.error = ErrorCode.offset_out_of_range
        except STORAGE_ERRORS as failure:  # only this partition fails; the other partitions of the request are read
            outcome = self._services.partitions.storage_failed(hosted, failure)
            return Read(asked=asked, error=outcome.error_code)
        if self._is_read_committed and read.records:
            read.aborted = log.aborted_transactions(asked.offset, last_batch_next_offset(read.records))
        return read

    def _absent(self, asked: AskedPartition) -> ErrorCode:
        if asked.topic is None:
            return ErrorCode.unknown_topic_id
        return self._services.absent(asked.topic, asked.index)
