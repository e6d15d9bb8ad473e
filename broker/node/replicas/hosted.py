"""One partition on this broker: its log, its replication core, who reads it; and what comes of an append."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from broker.log.partition_log import PartitionLog
from broker.node.replicas.wakes import Readers
from broker.node.settings.topic_config import TopicConfig
from broker.replication import PartitionReplica
from broker.wire.errors import ErrorCode


class HostedPartition:
    __slots__ = (
        "config",
        "discarded_offset",
        "follower_log_starts",
        "index",
        "is_caught_up",
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
        self.discarded_offset = 0  # with harness.discard: the offset that the next batch is told
        self.follower_log_starts: dict[int, int] = {}  # by replica id, from its last fetch
        self.is_caught_up = False  # as a follower: the last answer left nothing that its leader has committed
        self.unflushed_since_ms: int | None = None  # since when the log holds something that is not flushed (flush.ms)

    @property
    def key(self) -> tuple[str, int]:
        return self.topic, self.index


class AppendOutcome(NamedTuple):
    error_code: ErrorCode
    base_offset: int = -1
    required_offset: int = -1  # of the high watermark, for acks=all
    message: str | None = None
