"""One partition on this broker: its log, its replication core and its readers. Also the outcome of an append."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from broker.log.partition_log import PartitionLog
from broker.node.replicas.partition_readers import Readers
from broker.node.settings.topic_config import TopicConfig
from broker.replication import PartitionReplica
from broker.wire.errors import ErrorCode


class HostedPartition:
    __slots__ = (
        "config",
        "discarded_offset",
        "follower_log_starts",
        "index",
        "log",
        "readers",
        "replica",
        "topic",
        "topic_id",
        "unflushed_since_ms",
    )

    def __init__(
        self,
        *,
        topic: str,
        topic_id: UUID,
        index: int,
        log: PartitionLog,
        replica: PartitionReplica,
        config: TopicConfig,
    ) -> None:
        self.topic, self.topic_id, self.index = topic, topic_id, index
        self.log, self.replica, self.config = log, replica, config
        self.readers = Readers()
        self.discarded_offset = 0  # with harness.discard: the offset in the answer for the next batch
        self.follower_log_starts: dict[int, int] = {}  # The key is the replica id, the value comes from its last fetch.
        self.unflushed_since_ms: int | None = None  # since when the log has records that are not flushed (flush.ms)

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.index


class AppendOutcome(NamedTuple):
    error_code: ErrorCode
    base_offset: int = -1
    required_offset: int = -1  # the high watermark that acks=all waits for
    message: str | None = None
