"""ListOffsets and OffsetForLeaderEpoch of one partition, asked of its leader, leader changes followed."""

from __future__ import annotations

from typing import NamedTuple

from broker.client.blocking import BlockingClient
from broker.client.core.batch import TopicPartition
from broker.client.core.errors import KafkaError, first_partition
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message, request, to_ms


class FoundOffset(NamedTuple):
    """-1 where the leader had nothing to say. `leader_epoch` is that of the record before the offset, or of it."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


def list_offset(
    client: BlockingClient, partition: TopicPartition, timestamp_ms: int, deadline_ms: int, isolation_level: int = 0
) -> FoundOffset:
    """For a time in ms, EARLIEST (-2) or LATEST (-1); offset -1 if no record is that young.

    The request carries the leader epoch that we know, so that a leader that was replaced does not answer (KIP-320).
    """

    def build(version: int) -> Message:
        leader_epoch = client.metadata.leader_epoch(partition)
        entry = {
            "partition_index": partition.partition,
            "timestamp": timestamp_ms,
            "current_leader_epoch": leader_epoch,
        }
        topics = [{"name": partition.topic, "partitions": [entry]}]
        return request(ApiKey.LIST_OFFSETS, version, replica_id=-1, isolation_level=isolation_level, topics=topics)

    def parse(message: Message) -> FoundOffset:
        answer = first_partition(message.topics)
        _raise_error(answer.error_code, partition)
        return FoundOffset(answer.offset, to_ms(answer.timestamp), getattr(answer, "leader_epoch", -1))

    return client.ask_leader(partition, ApiKey.LIST_OFFSETS, build, parse, deadline_ms)


def epoch_end_offset(
    client: BlockingClient, partition: TopicPartition, leader_epoch: int, deadline_ms: int
) -> tuple[int, int]:
    """(largest epoch not above `leader_epoch`, offset after its last record); (-1, -1) if the leader knows none.

    As with `list_offset`, a leader that was replaced does not answer.
    """

    def build(version: int) -> Message:
        entry = {"partition": partition.partition, "leader_epoch": leader_epoch}
        entry["current_leader_epoch"] = client.metadata.leader_epoch(partition)
        topics = [{"topic": partition.topic, "partitions": [entry]}]
        return request(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=topics)

    def parse(message: Message) -> tuple[int, int]:
        answer = first_partition(message.topics)
        _raise_error(answer.error_code, partition)
        return answer.leader_epoch, answer.end_offset

    return client.ask_leader(partition, ApiKey.OFFSET_FOR_LEADER_EPOCH, build, parse, deadline_ms)


def _raise_error(code: ErrorCode, partition: TopicPartition) -> None:
    if code is not ErrorCode.none:
        raise KafkaError(code, f"{partition.topic}-{partition.partition}")
