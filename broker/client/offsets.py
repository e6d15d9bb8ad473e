"""ListOffsets and OffsetForLeaderEpoch of one partition. The questions go to its leader and follow leader changes."""

from __future__ import annotations

from broker.client.blocking import BlockingClient
from broker.client.core.batch import TopicPartition
from broker.client.questions import FoundOffset, end_of_epoch, offset_at


def list_offset(
    client: BlockingClient, partition: TopicPartition, timestamp_ms: int, deadline_ms: int, isolation_level: int = 0
) -> FoundOffset:
    """(offset, leader epoch) for a time in ms, EARLIEST (-2) or LATEST (-1). The offset is -1 if all records are
    older."""
    return client.ask_leader(
        partition,
        lambda epoch: offset_at(partition, timestamp_ms, known_epoch=epoch, isolation_level=isolation_level),
        deadline_ms,
    )


def epoch_end_offset(
    client: BlockingClient, partition: TopicPartition, leader_epoch: int, deadline_ms: int
) -> tuple[int, int]:
    """(largest epoch not above `leader_epoch`, offset after its last record); (-1, -1) if the leader knows no such
    epoch."""
    return client.ask_leader(
        partition, lambda epoch: end_of_epoch(partition, leader_epoch, known_epoch=epoch), deadline_ms
    )
