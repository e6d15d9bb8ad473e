"""AlterPartitionReassignments (key 45), versions 0-1 (KIP-455, KIP-860): moves partitions to other replicas, or cancels
a move.

The answer says that the move has begun. It is complete when the whole target is in sync; ListPartitionReassignments
shows this. On a client listener it is forwarded to the controller.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from broker.controller.reassignment_types import (
    AlterPartitionReassignments,
    AlterPartitionReassignmentsResponse,
    WantedReplicas,
)
from broker.node.handlers.forwarding import Forward
from broker.node.handlers.rows import ControllerApi, MakeEvent
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response

if TYPE_CHECKING:
    from broker.wire.shapes import alter_partition_reassignments as shapes


def event(services: Services, request: AnyRequest[shapes.AlterPartitionReassignmentsRequest]) -> MakeEvent:
    message = request.message
    partitions = tuple(
        WantedReplicas(
            topic=topic.name,
            partition=each.partition_index,
            replicas=None if each.replicas is None else tuple(each.replicas),
        )
        for topic in message.topics
        for each in topic.partitions
    )
    allow: bool = field_or(message, "allow_replication_factor_change", True)
    return lambda token: AlterPartitionReassignments(
        token=token, partitions=partitions, allow_replication_factor_change=allow
    )


def answer(
    services: Services,
    request: AnyRequest[shapes.AlterPartitionReassignmentsRequest],
    result: AlterPartitionReassignmentsResponse,
) -> shapes.AlterPartitionReassignmentsResponse:
    if result.error_code != ErrorCode.none:
        return _all_failed(request, ErrorCode(result.error_code), None)
    outcomes = iter(result.partitions)  # in the order of the request
    topics: list[shapes.ReassignableTopicResponseFields] = []
    for topic in request.message.topics:
        partitions: list[shapes.ReassignablePartitionResponseFields] = [
            {
                "partition_index": outcome.partition,
                "error_code": outcome.error_code,
                "error_message": outcome.error_message,
            }
            for _, outcome in zip(topic.partitions, outcomes, strict=False)
        ]
        topics.append({"name": topic.name, "partitions": partitions})
    # The value of the request. For a request without topics Apache Kafka answers True, whatever the request says.
    allowed: bool = not topics or field_or(request.message, "allow_replication_factor_change", True)
    return response(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        request.version,
        error_code=ErrorCode.none,
        error_message=None,
        allow_replication_factor_change=allowed,
        responses=topics,
    )


def _all_failed(
    request: AnyRequest[shapes.AlterPartitionReassignmentsRequest], error: ErrorCode, cause: str | None
) -> shapes.AlterPartitionReassignmentsResponse:
    topics: list[shapes.ReassignableTopicResponseFields] = [
        {
            "name": topic.name,
            "partitions": [
                {"partition_index": each.partition_index, "error_code": error, "error_message": cause}
                for each in topic.partitions
            ],
        }
        for topic in request.message.topics
    ]
    return response(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS, request.version, error_code=error, error_message=cause, responses=topics
    )


def _unsure_of_all(answered: shapes.AlterPartitionReassignmentsResponse) -> shapes.AlterPartitionReassignmentsResponse:
    topics = tuple(
        replace(topic, partitions=tuple(_unsure(each) for each in topic.partitions)) for topic in answered.responses
    )
    return replace(answered, responses=topics)


def _unsure(partition: shapes.ReassignablePartitionResponse) -> shapes.ReassignablePartitionResponse:
    """If the request was repeated, the first attempt may have cancelled the reassignment that is no longer in
    progress."""
    if partition.error_code is not ErrorCode.no_reassignment_in_progress:
        return partition
    error = "the controller was asked more than once, and a request before the last may have cancelled it"
    return replace(partition, error_code=ErrorCode.request_timed_out, error_message=error)


CONTROLLER = ControllerApi(event=event, answer=answer)
FORWARD: Forward[shapes.AlterPartitionReassignmentsRequest, shapes.AlterPartitionReassignmentsResponse] = Forward(
    version=1, failed=_all_failed, repeated=_unsure_of_all
)
