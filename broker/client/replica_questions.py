"""Questions about replicas: which brokers have a partition (KIP-455), and the removal of a broker from the cluster.

Any broker forwards them to the controller.
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
from broker.wire.messages import request

if TYPE_CHECKING:
    from broker.wire.shapes import alter_partition_reassignments as alter_shapes
    from broker.wire.shapes import list_partition_reassignments as list_shapes
    from broker.wire.shapes.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition that is moving to other replicas. `adding` and `removing` are parts of `replicas`."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


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


def unregistered_broker(broker_id: int) -> Question[None]:
    def build(version: int) -> UnregisterBrokerRequest:
        return request(ApiKey.UNREGISTER_BROKER, version, broker_id=broker_id)

    def parse(answer: UnregisterBrokerResponse) -> None:
        raise_error(answer.error_code, answer.error_message, f"broker {broker_id}")

    return Question(ApiKey.UNREGISTER_BROKER, build, parse)
