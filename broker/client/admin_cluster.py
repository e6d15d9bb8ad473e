"""The admin of logs, settings and the quorum: the calls behind `Admin` that change or show the cluster itself.

Each function takes the client and a deadline, and raises KafkaError. Where a change has to reach the controller, any
broker forwards it.
Shown by tests/broker_client/test_client_admin.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from broker.client.blocking import BlockingClient
from broker.client.core.batch import TopicPartition
from broker.client.core.errors import KafkaError, first_of, first_partition
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message, request

RESOURCE_TYPES = {"topic": 2, "broker": 4, "group": 32}
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_PREFERRED, _UNCLEAN = 0, 1
_METADATA_TOPIC = "__cluster_metadata"
_ELECTION_NOT_NEEDED = ErrorCode.election_not_needed
_EXACT, _ANY = 0, 2  # match types of DescribeClientQuotas


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLog:
    size_bytes: int
    lag: int  # records behind the leader's high watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectory:
    """-1 bytes where the broker does not tell."""

    total_bytes: int
    usable_bytes: int
    replicas: Mapping[TopicPartition, ReplicaLog]


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


def delete_records(client: BlockingClient, partition: TopicPartition, before: int, deadline_ms: int) -> int:
    """Everything before this offset (-1: before the high watermark). Returns the new beginning of the log."""

    def build(version: int) -> Message:
        entry = {"partition_index": partition.partition, "offset": before}
        timeout_ms = client.config.request_timeout_ms
        topics = [{"name": partition.topic, "partitions": [entry]}]
        return request(ApiKey.DELETE_RECORDS, version, topics=topics, timeout=timeout_ms)

    def parse(message: Message) -> int:
        answer = first_partition(message.topics)
        _raise_error(answer.error_code, None, f"{partition.topic}-{partition.partition}")
        low_watermark: int = answer.low_watermark
        return low_watermark

    return client.ask_leader(partition, ApiKey.DELETE_RECORDS, build, parse, deadline_ms)


def create_partitions(client: BlockingClient, counts: Mapping[str, int], deadline_ms: int) -> None:
    """Up to so many in all."""

    def build(version: int) -> Message:
        topics = [{"name": name, "count": count, "assignments": None} for name, count in counts.items()]
        timeout_ms = client.config.request_timeout_ms
        return request(ApiKey.CREATE_PARTITIONS, version, topics=topics, timeout=timeout_ms, validate_only=False)

    for each in client.call(None, ApiKey.CREATE_PARTITIONS, build, deadline_ms).results:
        _raise_error(each.error_code, each.error_message, f"topic {each.name!r}")


def alter_configs(
    client: BlockingClient,
    kind: str,
    name: str,
    *,
    set_: Mapping[str, str],
    delete: Iterable[str],
    append: Mapping[str, str],
    subtract: Mapping[str, str],
    deadline_ms: int,
) -> None:
    """All or none of them (KIP-339). A deleted setting falls back to its default."""
    if kind not in RESOURCE_TYPES:
        raise KafkaError(-1, f"expected one of {', '.join(RESOURCE_TYPES)}, got {kind!r}", name="LOCAL_STATE")
    changes: list[tuple[str, int, str | None]] = [(key, _SET, value) for key, value in set_.items()]
    changes += [(key, _DELETE, None) for key in delete]
    changes += [(key, _APPEND, value) for key, value in append.items()]
    changes += [(key, _SUBTRACT, value) for key, value in subtract.items()]

    def build(version: int) -> Message:
        resource = {
            "resource_type": RESOURCE_TYPES[kind],
            "resource_name": name,
            "configs": [
                {"name": key, "config_operation": operation, "value": value} for key, operation, value in changes
            ],
        }
        return request(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[resource], validate_only=False)

    for each in client.call(None, ApiKey.INCREMENTAL_ALTER_CONFIGS, build, deadline_ms).responses:
        _raise_error(each.error_code, each.error_message, f"{kind} {name!r}")


def elect_leaders(
    client: BlockingClient, partitions: Iterable[TopicPartition] | None, *, is_unclean: bool, deadline_ms: int
) -> dict[TopicPartition, KafkaError | None]:
    """By partition: None where it has the leader that was asked for. None for `partitions`: all that need it."""
    chosen = None if partitions is None else [TopicPartition(*each) for each in partitions]

    def build(version: int) -> Message:
        topics: list[dict[str, object]] | None = None
        if chosen is not None:
            by_name: dict[str, list[int]] = {}
            for topic, index in chosen:
                by_name.setdefault(topic, []).append(index)
            topics = [{"topic": name, "partitions": indexes} for name, indexes in by_name.items()]
        election = _UNCLEAN if is_unclean else _PREFERRED
        timeout_ms = client.config.request_timeout_ms
        return request(
            ApiKey.ELECT_LEADERS, version, election_type=election, topic_partitions=topics, timeout=timeout_ms
        )

    answer = client.call(None, ApiKey.ELECT_LEADERS, build, deadline_ms)
    _raise_error(answer.error_code, None, "election")
    found: dict[TopicPartition, KafkaError | None] = {}
    for topic in answer.replica_election_results:
        for each in topic.partition_result:
            is_fine = each.error_code in (ErrorCode.none, _ELECTION_NOT_NEEDED)
            text = f"{topic.topic}-{each.partition_id}: {each.error_message}"
            found[TopicPartition(topic.topic, each.partition_id)] = (
                None if is_fine else KafkaError(each.error_code, text)
            )
    return found


def describe_log_dirs(client: BlockingClient, broker_id: int, deadline_ms: int) -> dict[str, LogDirectory]:
    """By path, of one broker."""

    def build(version: int) -> Message:
        return request(ApiKey.DESCRIBE_LOG_DIRS, version, topics=None)

    answer = client.call(broker_id, ApiKey.DESCRIBE_LOG_DIRS, build, deadline_ms)
    _raise_error(getattr(answer, "error_code", ErrorCode.none), None, f"log directories of broker {broker_id}")
    found = {}
    for each in answer.results:
        _raise_error(each.error_code, None, f"log directory {each.log_dir} of broker {broker_id}")
        found[each.log_dir] = LogDirectory(
            total_bytes=getattr(each, "total_bytes", -1),
            usable_bytes=getattr(each, "usable_bytes", -1),
            replicas={
                TopicPartition(topic.name, one.partition_index): ReplicaLog(
                    size_bytes=one.partition_size, lag=one.offset_lag
                )
                for topic in each.topics
                for one in topic.partitions
            },
        )
    return found


def describe_quorum(client: BlockingClient, deadline_ms: int) -> QuorumDescription:
    """The controllers, as their leader knows them (KIP-836)."""

    def build(version: int) -> Message:
        topics = [{"topic_name": _METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]
        return request(ApiKey.DESCRIBE_QUORUM, version, topics=topics)

    answer = client.call(None, ApiKey.DESCRIBE_QUORUM, build, deadline_ms)
    _raise_error(answer.error_code, getattr(answer, "error_message", None), "quorum")
    found = first_partition(answer.topics)
    _raise_error(found.error_code, getattr(found, "error_message", None), "quorum")
    return QuorumDescription(
        leader_id=found.leader_id,
        leader_epoch=found.leader_epoch,
        high_watermark=found.high_watermark,
        voters=tuple(_quorum_replica(each) for each in found.current_voters),
        observers=tuple(_quorum_replica(each) for each in found.observers),
    )


def _quorum_replica(replica: Message) -> QuorumReplica:
    return QuorumReplica(
        replica_id=replica.replica_id,
        log_end_offset=replica.log_end_offset,
        last_fetch_ms=getattr(replica, "last_fetch_timestamp", -1),
        last_caught_up_ms=getattr(replica, "last_caught_up_timestamp", -1),
    )


def describe_client_quotas(
    client: BlockingClient, client_id: str | None, deadline_ms: int
) -> dict[str | None, dict[str, float]]:
    """By client id, None for the default of all others; `client_id` None: of all."""
    component: dict[str, object] = {"entity_type": "client-id", "match_type": _ANY, "match": None}
    if client_id is not None:
        component = {"entity_type": "client-id", "match_type": _EXACT, "match": client_id}

    def build(version: int) -> Message:
        return request(ApiKey.DESCRIBE_CLIENT_QUOTAS, version, components=[component], strict=True)

    answer = client.call(None, ApiKey.DESCRIBE_CLIENT_QUOTAS, build, deadline_ms)
    _raise_error(answer.error_code, answer.error_message, "quotas")
    return {
        first_of(entry.entity).entity_name: {each.key: each.value for each in entry.values}
        for entry in answer.entries or ()
    }


def alter_client_quotas(
    client: BlockingClient, client_id: str | None, quotas: Mapping[str, float | None], deadline_ms: int
) -> None:
    """`producer_byte_rate`, `consumer_byte_rate`, `request_percentage`; a quota of None is removed. `client_id` None:
    the default of all clients without one of their own."""

    def build(version: int) -> Message:
        entry = {
            "entity": [{"entity_type": "client-id", "entity_name": client_id}],
            "ops": [
                {"key": key, "value": 0.0 if value is None else float(value), "remove": value is None}
                for key, value in quotas.items()
            ],
        }
        return request(ApiKey.ALTER_CLIENT_QUOTAS, version, entries=[entry], validate_only=False)

    for each in client.call(None, ApiKey.ALTER_CLIENT_QUOTAS, build, deadline_ms).entries:
        _raise_error(each.error_code, each.error_message, f"quotas of client {client_id!r}")


def _raise_error(code: ErrorCode, message: str | None, what: str) -> None:
    if code is not ErrorCode.none:
        raise KafkaError(code, f"{what}: {message}" if message else what)
