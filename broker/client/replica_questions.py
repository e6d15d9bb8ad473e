"""Questions about replicas: which brokers have a partition (KIP-455), in which log directories a broker keeps them
(KIP-113), and the removal of a broker from the cluster.

Any broker forwards them to the controller. About log directories a broker only answers for itself.
Shown by tests/broker_client/test_client_admin.py and tests/broker_node/test_node_reassignment.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.client.core.batch import TopicPartition
from broker.client.core.errors import KafkaError
from broker.client.question import Question, raise_error
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, request

if TYPE_CHECKING:
    from broker.wire.shapes import alter_partition_reassignments as alter_shapes
    from broker.wire.shapes import list_partition_reassignments as list_shapes
    from broker.wire.shapes.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
    from broker.wire.shapes.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
    from broker.wire.shapes.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition that is moving to other replicas. `adding` and `removing` are parts of `replicas`."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLog:
    size_bytes: int
    lag: int  # records behind the leader's high watermark; of a future log: behind the log that it copies
    is_future: bool = False  # True: the replica moves into this directory (KIP-113)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectory:
    """A size is -1 where the broker does not tell it. `error`: the directory failed, and nothing else is known of
    it."""

    total_bytes: int
    usable_bytes: int
    replicas: Mapping[TopicPartition, ReplicaLog]
    error: KafkaError | None = None
    is_cordoned: bool = False  # it gets no new replicas (KIP-1066)


def changed_replicas(
    wanted: Mapping[TopicPartition, Sequence[int] | None], timeout_ms: int
) -> Question[dict[TopicPartition, KafkaError | None]]:
    """The result by partition: None where the reassignment has begun, else the error. If the wanted replicas are None,
    the reassignment in progress is cancelled."""
    by_name: dict[str, list[alter_shapes.ReassignablePartitionFields]] = {}
    for (topic, index), replicas in wanted.items():
        chosen = None if replicas is None else list(replicas)
        by_name.setdefault(topic, []).append({"partition_index": index, "replicas": chosen})

    def build(version: int) -> alter_shapes.AlterPartitionReassignmentsRequest:
        topics: list[alter_shapes.ReassignableTopicFields] = [
            {"name": name, "partitions": partitions} for name, partitions in by_name.items()
        ]
        return request(ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, timeout=timeout_ms, topics=topics)

    def parse(
        answer: alter_shapes.AlterPartitionReassignmentsResponse,
    ) -> dict[TopicPartition, KafkaError | None]:
        raise_error(answer.error_code, answer.error_message, "reassignment")
        found: dict[TopicPartition, KafkaError | None] = {}
        for topic in answer.responses:
            for each in topic.partitions:
                text = f"{topic.name}-{each.partition_index}: {each.error_message}"
                is_fine = each.error_code is ErrorCode.none
                found[TopicPartition(topic.name, each.partition_index)] = (
                    None if is_fine else KafkaError(each.error_code, text)
                )
        return found

    return Question(ApiKey.ALTER_PARTITION_REASSIGNMENTS, build, parse)


def reassignments(
    partitions: Iterable[TopicPartition] | None, timeout_ms: int
) -> Question[dict[TopicPartition, Reassignment]]:
    """The reassignments in progress of these partitions. None means all partitions."""
    by_name: dict[str, list[int]] = {}
    for topic, index in partitions or ():
        by_name.setdefault(topic, []).append(index)

    def build(version: int) -> list_shapes.ListPartitionReassignmentsRequest:
        topics: list[list_shapes.ListPartitionReassignmentsTopicsFields] | None = None
        if partitions is not None:
            topics = [{"name": name, "partition_indexes": indexes} for name, indexes in by_name.items()]
        return request(ApiKey.LIST_PARTITION_REASSIGNMENTS, version, timeout=timeout_ms, topics=topics)

    def parse(answer: list_shapes.ListPartitionReassignmentsResponse) -> dict[TopicPartition, Reassignment]:
        raise_error(answer.error_code, answer.error_message, "reassignments")
        return {
            TopicPartition(topic.name, each.partition_index): Reassignment(
                replicas=tuple(each.replicas),
                adding=tuple(each.adding_replicas),
                removing=tuple(each.removing_replicas),
            )
            for topic in answer.topics
            for each in topic.partitions
        }

    return Question(ApiKey.LIST_PARTITION_REASSIGNMENTS, build, parse)


def log_directories() -> Question[dict[str, LogDirectory]]:
    """The log directories of the broker that is asked, by path."""

    def build(version: int) -> DescribeLogDirsRequest:
        return request(ApiKey.DESCRIBE_LOG_DIRS, version, topics=None)

    def parse(answer: DescribeLogDirsResponse) -> dict[str, LogDirectory]:
        raise_error(field_or(answer, "error_code", ErrorCode.none), None, "log directories")
        return {
            each.log_dir: LogDirectory(
                total_bytes=field_or(each, "total_bytes", -1),
                usable_bytes=field_or(each, "usable_bytes", -1),
                replicas={
                    TopicPartition(topic.name, one.partition_index): ReplicaLog(
                        size_bytes=one.partition_size, lag=one.offset_lag, is_future=one.is_future_key
                    )
                    for topic in each.topics
                    for one in topic.partitions
                },
                error=_failure(each.log_dir, each.error_code),
                is_cordoned=field_or(each, "is_cordoned", False),
            )
            for each in answer.results
        }

    return Question(ApiKey.DESCRIBE_LOG_DIRS, build, parse)


def moved_logs(paths: Mapping[TopicPartition, str]) -> Question[dict[TopicPartition, KafkaError | None]]:
    """Begins to move replicas of the broker that is asked to its log directories with these absolute paths. The result
    by partition: None if the move has begun."""
    by_path: dict[str, dict[str, list[int]]] = {}
    for (topic, index), path in paths.items():
        by_path.setdefault(path, {}).setdefault(topic, []).append(index)

    def build(version: int) -> AlterReplicaLogDirsRequest:
        return request(
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            version,
            dirs=[
                {"path": path, "topics": [{"name": name, "partitions": each} for name, each in topics.items()]}
                for path, topics in by_path.items()
            ],
        )

    def parse(answer: AlterReplicaLogDirsResponse) -> dict[TopicPartition, KafkaError | None]:
        found: dict[TopicPartition, KafkaError | None] = {}
        for moved in answer.results:
            for each in moved.partitions:
                is_fine = each.error_code is ErrorCode.none
                text = f"{moved.topic_name}-{each.partition_index}: {each.error_code.name.upper()}"
                found[TopicPartition(moved.topic_name, each.partition_index)] = (
                    None if is_fine else KafkaError(each.error_code, text)
                )
        return found

    return Question(ApiKey.ALTER_REPLICA_LOG_DIRS, build, parse)


def _failure(path: str, code: ErrorCode) -> KafkaError | None:
    return None if code is ErrorCode.none else KafkaError(code, f"log directory {path}: {code.name.upper()}")


def unregistered_broker(broker_id: int) -> Question[None]:
    def build(version: int) -> UnregisterBrokerRequest:
        return request(ApiKey.UNREGISTER_BROKER, version, broker_id=broker_id)

    def parse(answer: UnregisterBrokerResponse) -> None:
        raise_error(answer.error_code, answer.error_message, f"broker {broker_id}")

    return Question(ApiKey.UNREGISTER_BROKER, build, parse)
