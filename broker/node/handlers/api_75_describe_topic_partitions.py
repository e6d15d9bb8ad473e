"""DescribeTopicPartitions (key 75), version 0 (KIP-966): partitions of topics, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controller.topics import is_legal_name
from broker.node.handlers import operations
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.security.acls import Operation, ResourceType
from broker.security.authorizer import Access
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import describe_topic_partitions as shapes


def handle(services: Services, request: AnyRequest[shapes.DescribeTopicPartitionsRequest]) -> None:
    message, image = request.message, services.metadata.image
    names = sorted({topic.name for topic in message.topics} or set(image.topics))
    cursor, first = message.cursor, 0
    wanted = [name for name in names if cursor is None or name >= cursor.topic_name]
    if cursor is not None and (cursor.partition_index < 0 or (message.topics and wanted[:1] != [cursor.topic_name])):
        refused = [_refused(topic.name) for topic in message.topics]
        request.respond(response(ApiKey.DESCRIBE_TOPIC_PARTITIONS, request.version, topics=refused, next_cursor=None))
        return
    if cursor is not None:
        names = wanted
        first = cursor.partition_index if names and names[0] == cursor.topic_name else 0
    left = min(max(1, message.response_partition_limit), services.config.network.max_request_partition_size_limit)
    topics: list[shapes.DescribeTopicPartitionsResponseTopicFields] = []
    next_cursor: shapes.AnsweredCursorFields | None = None
    access = request.access
    if access is not None:
        asked = access.may if message.topics else access.could
        denied: list[str] = []
        seen: list[str] = []
        for name in names:
            (seen if asked(Operation.DESCRIBE, ResourceType.TOPIC, name) else denied).append(name)
        names = seen
        if message.topics:  # denied topics that the request does not name are left out
            topics += [_denied(name) for name in denied]
        first = first if cursor is not None and names[:1] == [cursor.topic_name] else 0
    live = set(image.live_broker_ids())
    for name in names:
        if left == 0:
            next_cursor = {"topic_name": name, "partition_index": 0}
            break
        topic, taken, next_index = _topic(services, name, first, left, live, request.access)
        topics.append(topic)
        first, left = 0, left - taken
        if next_index is not None:
            next_cursor = {"topic_name": name, "partition_index": next_index}
            break
    request.respond(response(ApiKey.DESCRIBE_TOPIC_PARTITIONS, request.version, topics=topics, next_cursor=next_cursor))


def _why_absent(name: str) -> ErrorCode:
    return ErrorCode.unknown_topic_or_partition if is_legal_name(name) else ErrorCode.invalid_topic_exception


def _refused(name: str | None) -> shapes.DescribeTopicPartitionsResponseTopicFields:
    """The request is invalid as a whole if its cursor is before the first partition, or at a topic that is not asked
    for."""
    return {
        "error_code": ErrorCode.invalid_request,
        "name": name,
        "topic_id": None,
        "is_internal": False,
        "partitions": [],
        "topic_authorized_operations": operations.NOT_ASKED,
    }


def _denied(name: str) -> shapes.DescribeTopicPartitionsResponseTopicFields:
    return {**_refused(name), "error_code": ErrorCode.topic_authorization_failed}


def _topic(
    services: Services, name: str, first: int, limit: int, live: set[int], access: Access | None
) -> tuple[shapes.DescribeTopicPartitionsResponseTopicFields, int, int | None]:
    """Returns (the topic, the number of its partitions in this page, the partition where the next page begins)."""
    image = services.metadata.image
    state = image.topics.get(name)
    partitions: list[shapes.DescribeTopicPartitionsResponsePartitionFields] = []
    total = 0 if state is None else len(state.partitions)
    for index in range(first, min(total, first + limit)):
        assert state is not None
        each = state.partitions[index]
        partitions.append(
            {
                "error_code": ErrorCode.none if each.leader >= 0 else ErrorCode.leader_not_available,
                "partition_index": index,
                "leader_id": each.leader,
                "leader_epoch": each.leader_epoch,
                "replica_nodes": each.replicas,
                "isr_nodes": each.isr,
                "eligible_leader_replicas": each.elr,
                "last_known_elr": each.last_known_elr,
                "offline_replicas": [
                    replica
                    for replica in each.replicas
                    if replica not in live or image.has_offline(replica, state.topic_id, index)
                ],
            }
        )
    topic: shapes.DescribeTopicPartitionsResponseTopicFields = {
        "error_code": ErrorCode.none if state is not None else _why_absent(name),
        "name": name,
        "topic_id": None if state is None else state.topic_id,
        "is_internal": name in services.internal_topics,
        "partitions": partitions,
        "topic_authorized_operations": operations.allowed(access, ResourceType.TOPIC, name),
    }
    end = first + len(partitions)
    return topic, len(partitions), end if end < total else None
