"""Questions about logs and the cluster, as values. topic_questions.py has those about topics and settings.

`blocking.py` asks them with retries and follows leaders, `direct.py` asks one broker once. The reference admin and the
probes of the harness use them.

Shown by tests/broker_client/test_client_admin.py and tests/harness/test_harness_topic_changes.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from broker.client.core.batch import TopicPartition
from broker.client.core.errors import KafkaError, first_of, first_partition
from broker.client.core.fetch_state import FetchPosition, FetchResult
from broker.client.core.metadata import MetadataAnswer
from broker.client.protocol import fetch_request, fetch_results, metadata_answer, metadata_request
from broker.client.question import Question, raise_error
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, request, to_ms

if TYPE_CHECKING:
    from broker.wire.shapes.delete_records import DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsTopicFields
    from broker.wire.shapes.describe_quorum import (
        AskedTopicDataFields,
        DescribeQuorumRequest,
        DescribeQuorumResponse,
        ReplicaState,
    )
    from broker.wire.shapes.fetch import FetchRequest, FetchResponse
    from broker.wire.shapes.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
    from broker.wire.shapes.list_offsets import (
        ListOffsetsPartitionFields,
        ListOffsetsRequest,
        ListOffsetsResponse,
        ListOffsetsTopicFields,
    )
    from broker.wire.shapes.offset_for_leader_epoch import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderEpochResponse,
        OffsetForLeaderPartitionFields,
        OffsetForLeaderTopicFields,
    )

GROUP, TRANSACTION = 0, 1  # key types of FindCoordinator
_METADATA_TOPIC = "__cluster_metadata"


class FoundOffset(NamedTuple):
    """A field is -1 if the leader did not tell it. `leader_epoch` is the epoch of the record at or before the
    offset."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    """Times are in ms of the wall clock, or -1 if not known."""

    replica_id: int
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


# -- the cluster --------------------------------------------------------------------------------------------------


def metadata_of(topics: Sequence[str] | None) -> Question[MetadataAnswer]:
    """None asks for all topics, an empty list for the brokers only. The error of a topic is in its state. The question
    does not create topics."""
    return Question(
        ApiKey.METADATA, lambda version: metadata_request(version, topics, auto_create=False), metadata_answer
    )


def coordinator_of(key_type: int, key: str) -> Question[int]:
    """The broker that coordinates this group or transactional id."""

    def build(version: int) -> FindCoordinatorRequest:
        return request(ApiKey.FIND_COORDINATOR, version, key=key, key_type=key_type, coordinator_keys=[key])

    def parse(message: FindCoordinatorResponse) -> int:
        coordinators = field_or(message, "coordinators", None)
        found = message if coordinators is None else first_of(coordinators)
        raise_error(found.error_code, found.error_message, f"coordinator of {key!r}")
        return found.node_id

    return Question(ApiKey.FIND_COORDINATOR, build, parse)


def quorum() -> Question[QuorumDescription]:
    """The state of the controllers, as their leader knows it (KIP-836)."""

    def build(version: int) -> DescribeQuorumRequest:
        topics: list[AskedTopicDataFields] = [{"topic_name": _METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]
        return request(ApiKey.DESCRIBE_QUORUM, version, topics=topics)

    def parse(message: DescribeQuorumResponse) -> QuorumDescription:
        raise_error(message.error_code, field_or(message, "error_message", None), "quorum")
        found = first_partition(message.topics)
        raise_error(found.error_code, field_or(found, "error_message", None), "quorum")
        return QuorumDescription(
            leader_id=found.leader_id,
            leader_epoch=found.leader_epoch,
            high_watermark=found.high_watermark,
            voters=tuple(_quorum_replica(each) for each in found.current_voters),
            observers=tuple(_quorum_replica(each) for each in found.observers),
        )

    return Question(ApiKey.DESCRIBE_QUORUM, build, parse)


def _quorum_replica(replica: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        replica_id=replica.replica_id,
        log_end_offset=replica.log_end_offset,
        last_fetch_ms=field_or(replica, "last_fetch_timestamp", -1),
        last_caught_up_ms=field_or(replica, "last_caught_up_timestamp", -1),
    )


# -- questions to the leader of a partition -------------------------------------------------------------------------
# `known_epoch` is the leader epoch that the client knows. A leader with another epoch refuses the question (KIP-320).
# -1 means any epoch.


def offset_at(
    partition: TopicPartition, timestamp_ms: int, *, known_epoch: int = -1, isolation_level: int = 0
) -> Question[FoundOffset]:
    """The offset for a time in ms, EARLIEST (-2) or LATEST (-1). It is -1 if all records are older than the time."""

    def build(version: int) -> ListOffsetsRequest:
        entry: ListOffsetsPartitionFields = {
            "partition_index": partition.partition,
            "timestamp": timestamp_ms,
            "current_leader_epoch": known_epoch,
        }
        topics: list[ListOffsetsTopicFields] = [{"name": partition.topic, "partitions": [entry]}]
        return request(ApiKey.LIST_OFFSETS, version, replica_id=-1, isolation_level=isolation_level, topics=topics)

    def parse(message: ListOffsetsResponse) -> FoundOffset:
        answer = first_partition(message.topics)
        raise_error(answer.error_code, None, _named(partition))
        return FoundOffset(answer.offset, to_ms(answer.timestamp), field_or(answer, "leader_epoch", -1))

    return Question(ApiKey.LIST_OFFSETS, build, parse)


def end_of_epoch(partition: TopicPartition, leader_epoch: int, *, known_epoch: int = -1) -> Question[tuple[int, int]]:
    """(largest epoch not above `leader_epoch`, offset after its last record); (-1, -1) if the leader knows no such
    epoch."""

    def build(version: int) -> OffsetForLeaderEpochRequest:
        entry: OffsetForLeaderPartitionFields = {
            "partition": partition.partition,
            "leader_epoch": leader_epoch,
            "current_leader_epoch": known_epoch,
        }
        topics: list[OffsetForLeaderTopicFields] = [{"topic": partition.topic, "partitions": [entry]}]
        return request(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=topics)

    def parse(message: OffsetForLeaderEpochResponse) -> tuple[int, int]:
        answer = first_partition(message.topics)
        raise_error(answer.error_code, None, _named(partition))
        return answer.leader_epoch, answer.end_offset

    return Question(ApiKey.OFFSET_FOR_LEADER_EPOCH, build, parse)


def records_from(
    partition: TopicPartition, offset: int, *, size_bytes_max: int, max_wait_ms: int
) -> Question[FetchResult]:
    """The batches that the leader returns from this offset on; perhaps none, also because the client is over its quota
    (`held_back_ms`). They are the stored bytes, and are not checked."""

    def build(version: int) -> FetchRequest:
        return fetch_request(
            version,
            {partition: FetchPosition(offset=offset, leader_epoch=-1)},
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=size_bytes_max,
            partition_max_bytes=size_bytes_max,
        )

    def parse(message: FetchResponse) -> FetchResult:
        where = f"{_named(partition)} at offset {offset}"
        raise_error(field_or(message, "error_code", ErrorCode.none), None, where)
        result = fetch_results(message).get(partition)
        if result is None and (wait_ms := to_ms(message.throttle_time)) > 0:
            return FetchResult(held_back_ms=wait_ms)
        if result is None:
            raise KafkaError(ErrorCode.unknown_topic_or_partition, where)
        if result.error_code:
            raise KafkaError(result.error_code, where)
        return result

    return Question(ApiKey.FETCH, build, parse)


def deleted_records(partition: TopicPartition, before: int, timeout_ms: int) -> Question[int]:
    """Delete all records before this offset (-1: before the high watermark). The answer is the new log start offset."""

    def build(version: int) -> DeleteRecordsRequest:
        topics: list[DeleteRecordsTopicFields] = [
            {"name": partition.topic, "partitions": [{"partition_index": partition.partition, "offset": before}]}
        ]
        return request(ApiKey.DELETE_RECORDS, version, topics=topics, timeout=timeout_ms)

    def parse(message: DeleteRecordsResponse) -> int:
        answer = first_partition(message.topics)
        raise_error(answer.error_code, None, _named(partition))
        return answer.low_watermark

    return Question(ApiKey.DELETE_RECORDS, build, parse)


def _named(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"
