"""Questions about topics, logs, settings and the cluster, as values: `blocking.py` asks them with retries and follows
leaders, `direct.py` asks one broker once. Both the reference admin and the harness' probes are made of them.

Shown by tests/broker_client/test_client_admin.py and tests/harness/test_harness_topic_changes.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol
from uuid import UUID

from broker.client.core.batch import TopicPartition
from broker.client.core.errors import IncompleteAnswerError, KafkaError, first_of, first_partition
from broker.client.core.fetcher import FetchPosition, FetchResult
from broker.client.core.metadata import MetadataAnswer
from broker.client.protocol import fetch_request, fetch_results, metadata_answer, metadata_request
from broker.client.question import Question, raise_error
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, request, to_ms

if TYPE_CHECKING:
    from broker.wire.shapes.create_partitions import (
        CreatePartitionsRequest,
        CreatePartitionsResponse,
        CreatePartitionsTopicFields,
    )
    from broker.wire.shapes.create_topics import CreatableTopicFields, CreateTopicsRequest, CreateTopicsResponse
    from broker.wire.shapes.delete_records import DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsTopicFields
    from broker.wire.shapes.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicStateFields
    from broker.wire.shapes.describe_configs import (
        DescribeConfigsRequest,
        DescribeConfigsResourceFields,
        DescribeConfigsResponse,
    )
    from broker.wire.shapes.describe_quorum import (
        AskedTopicDataFields,
        DescribeQuorumRequest,
        DescribeQuorumResponse,
        ReplicaState,
    )
    from broker.wire.shapes.fetch import FetchRequest, FetchResponse
    from broker.wire.shapes.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
    from broker.wire.shapes.incremental_alter_configs import (
        AlterableConfigFields,
        AlterConfigsResourceFields,
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )
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
RESOURCE_TYPES = {"topic": 2, "broker": 4, "group": 32}
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_FROM_TOPIC = 1  # config_source of DescribeConfigs: a setting of the topic itself
_METADATA_TOPIC = "__cluster_metadata"
_DELETE_BY_ID_VERSION = 6  # of DeleteTopics (KIP-516)


@dataclass(frozen=True, slots=True)
class NewTopic:
    """-1 for partitions or replication_factor means the brokers' default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    config: Mapping[str, str] = field(default_factory=dict)


class FoundOffset(NamedTuple):
    """-1 if the leader did not say. `leader_epoch` is the epoch of the record at or before the offset."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class Setting(NamedTuple):
    value: str | None
    is_sensitive: bool  # then the broker does not tell the value
    is_of_topic: bool  # set on the topic itself, not taken from its broker


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    """Times are ms of the wall clock, -1 if not known."""

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
    """None asks for all topics, an empty list for the brokers only. A topic's error stands in its state. Topics are not
    created by asking."""
    return Question(
        ApiKey.METADATA, lambda version: metadata_request(version, topics, auto_create=False), metadata_answer
    )


def coordinator_of(key_type: int, key: str) -> Question[int]:
    """Which broker coordinates this group or transactional id."""

    def build(version: int) -> FindCoordinatorRequest:
        return request(ApiKey.FIND_COORDINATOR, version, key=key, key_type=key_type, coordinator_keys=[key])

    def parse(message: FindCoordinatorResponse) -> int:
        coordinators = field_or(message, "coordinators", None)
        found = message if coordinators is None else first_of(coordinators)
        raise_error(found.error_code, found.error_message, f"coordinator of {key!r}")
        return found.node_id

    return Question(ApiKey.FIND_COORDINATOR, build, parse)


def quorum() -> Question[QuorumDescription]:
    """The controllers, as their leader knows them (KIP-836)."""

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


# -- one partition, asked of its leader -----------------------------------------------------------------------------
# `known_epoch` is the leader epoch that we know. A leader that was replaced then does not answer (KIP-320). -1: any
# epoch.


def offset_at(
    partition: TopicPartition, timestamp_ms: int, *, known_epoch: int = -1, isolation_level: int = 0
) -> Question[FoundOffset]:
    """For a time in ms, EARLIEST (-2) or LATEST (-1). The offset is -1 if all records are older than the time."""

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
    """(largest epoch not above `leader_epoch`, offset after its last record); (-1, -1) if the leader knows none."""

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
    partition: TopicPartition, offset: int, *, size_bytes_max: int, max_wait_ms: int, known_epoch: int = -1
) -> Question[FetchResult]:
    """What the leader serves from this offset on, perhaps nothing. Batches come as they are stored. They are not
    checked."""

    def build(version: int) -> FetchRequest:
        return fetch_request(
            version,
            {partition: FetchPosition(offset=offset, leader_epoch=known_epoch)},
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=size_bytes_max,
            partition_max_bytes=size_bytes_max,
        )

    def parse(message: FetchResponse) -> FetchResult:
        where = f"{_named(partition)} at offset {offset}"
        raise_error(field_or(message, "error_code", ErrorCode.none), None, where)
        result = fetch_results(message).get(partition)
        if result is None:
            raise KafkaError(ErrorCode.unknown_topic_or_partition, where)
        if result.error_code:
            raise KafkaError(result.error_code, where)
        return result

    return Question(ApiKey.FETCH, build, parse)


def deleted_records(partition: TopicPartition, before: int, timeout_ms: int) -> Question[int]:
    """Delete everything before this offset (-1: before the high watermark). The log's new beginning."""

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


# -- topics and settings: any broker forwards to the controller -----------------------------------------------------


def created_topics(topics: Sequence[NewTopic], timeout_ms: int) -> Question[dict[str, str]]:
    """The new topics' ids by name, empty where the broker knows no ids. The first error is raised."""

    def build(version: int) -> CreateTopicsRequest:
        entries: list[CreatableTopicFields] = [
            {
                "name": topic.name,
                "num_partitions": topic.partitions,
                "replication_factor": topic.replication_factor,
                "assignments": (),
                "configs": [{"name": name, "value": str(value)} for name, value in topic.config.items()],
            }
            for topic in topics
        ]
        return request(ApiKey.CREATE_TOPICS, version, topics=entries, timeout=timeout_ms)

    def parse(message: CreateTopicsResponse) -> dict[str, str]:
        _check(message.topics, len(topics))
        return {each.name: str(field_or(each, "topic_id", None) or "") for each in message.topics}

    return Question(ApiKey.CREATE_TOPICS, build, parse)


def deleted_topics(names: Sequence[str], timeout_ms: int) -> Question[None]:
    def build(version: int) -> DeleteTopicsRequest:
        return request(ApiKey.DELETE_TOPICS, version, topic_names=names, timeout=timeout_ms)

    def parse(message: DeleteTopicsResponse) -> None:
        _check(message.responses, len(names))

    return Question(ApiKey.DELETE_TOPICS, build, parse)


def deleted_topic_by_id(topic_id: str, timeout_ms: int) -> Question[None]:
    """A later topic of the same name stays."""

    def build(version: int) -> DeleteTopicsRequest:
        topic: DeleteTopicStateFields = {"name": None, "topic_id": UUID(topic_id)}
        return request(ApiKey.DELETE_TOPICS, version, topics=[topic], timeout=timeout_ms)

    def parse(message: DeleteTopicsResponse) -> None:
        found = first_of(message.responses)
        raise_error(found.error_code, found.error_message, f"topic with id {topic_id}")

    return Question(ApiKey.DELETE_TOPICS, build, parse, lowest=_DELETE_BY_ID_VERSION, highest=_DELETE_BY_ID_VERSION)


def more_partitions(counts: Mapping[str, int], timeout_ms: int) -> Question[None]:
    """Up to this many in all."""

    def build(version: int) -> CreatePartitionsRequest:
        topics: list[CreatePartitionsTopicFields] = [
            {"name": name, "count": count, "assignments": None} for name, count in counts.items()
        ]
        return request(ApiKey.CREATE_PARTITIONS, version, topics=topics, timeout=timeout_ms, validate_only=False)

    def parse(message: CreatePartitionsResponse) -> None:
        _check(message.results, len(counts))

    return Question(ApiKey.CREATE_PARTITIONS, build, parse)


def settings_of(kind: str, name: str) -> Question[dict[str, Setting]]:
    """Effective settings of a "topic", a "broker" (which answers for itself only) or a "group"."""

    resource_type = _resource_type(kind)

    def build(version: int) -> DescribeConfigsRequest:
        entry: DescribeConfigsResourceFields = {
            "resource_type": resource_type,
            "resource_name": name,
            "configuration_keys": None,
        }
        return request(ApiKey.DESCRIBE_CONFIGS, version, resources=[entry])

    def parse(message: DescribeConfigsResponse) -> dict[str, Setting]:
        result = first_of(message.results)
        raise_error(result.error_code, result.error_message, f"{kind} {name}")
        return {
            each.name: Setting(each.value, bool(each.is_sensitive), each.config_source == _FROM_TOPIC)
            for each in result.configs
        }

    return Question(ApiKey.DESCRIBE_CONFIGS, build, parse)


def changed_settings(
    kind: str,
    name: str,
    *,
    set_: Mapping[str, str] | None = None,
    delete: Iterable[str] = (),
    append: Mapping[str, str] | None = None,
    subtract: Mapping[str, str] | None = None,
) -> Question[None]:
    """All or none of them (KIP-339). A deleted setting falls back to its default."""
    resource_type = _resource_type(kind)
    changes: list[tuple[str, int, str | None]] = [(key, _SET, value) for key, value in (set_ or {}).items()]
    changes += [(key, _DELETE, None) for key in delete]
    changes += [(key, _APPEND, value) for key, value in (append or {}).items()]
    changes += [(key, _SUBTRACT, value) for key, value in (subtract or {}).items()]

    def build(version: int) -> IncrementalAlterConfigsRequest:
        configs: list[AlterableConfigFields] = [
            {"name": key, "config_operation": operation, "value": value} for key, operation, value in changes
        ]
        resource: AlterConfigsResourceFields = {
            "resource_type": resource_type,
            "resource_name": name,
            "configs": configs,
        }
        return request(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[resource], validate_only=False)

    def parse(message: IncrementalAlterConfigsResponse) -> None:
        found = first_of(message.responses)
        raise_error(found.error_code, found.error_message, f"{kind} {name!r}")

    return Question(ApiKey.INCREMENTAL_ALTER_CONFIGS, build, parse)


def _resource_type(kind: str) -> int:
    if kind not in RESOURCE_TYPES:
        known = ", ".join(RESOURCE_TYPES)
        raise KafkaError(-1, f"expected one of {known}, got {kind!r}", name="LOCAL_STATE")
    return RESOURCE_TYPES[kind]


class _Outcome(Protocol):
    @property
    def name(self) -> str | None: ...
    @property
    def error_code(self) -> ErrorCode: ...


def _check(topics: Sequence[_Outcome], asked: int) -> None:
    """Raises the first error among the answers for this many topics, IncompleteAnswerError if there are fewer
    answers."""
    for each in topics:
        raise_error(each.error_code, getattr(each, "error_message", None), f"topic {each.name!r}")
    if len(topics) < asked:
        raise IncompleteAnswerError


def _named(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"
