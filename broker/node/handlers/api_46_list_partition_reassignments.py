"""ListPartitionReassignments (key 46), version 0 (KIP-455): partitions whose replicas are changing, of all topics or
some.

The controller answers from committed metadata. So a reassignment is listed as soon as its request was answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.node.handlers.forwarding import Forward
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import list_partition_reassignments as shapes


def handle(services: Services, request: AnyRequest[shapes.ListPartitionReassignmentsRequest]) -> None:
    controller = services.metadata.controller
    if not controller.is_active:
        request.respond(_failed(request, ErrorCode.not_controller, "this node is not the active controller"))
        return
    image = controller.image
    asked = request.message.topics
    wanted: list[tuple[str, tuple[int, ...] | range]]
    if asked is None:
        wanted = [(name, range(len(topic.partitions))) for name, topic in image.topics.items()]
    else:
        wanted = [(topic.name, tuple(topic.partition_indexes)) for topic in asked]
    topics: list[shapes.OngoingTopicReassignmentFields] = []
    for name, indexes in wanted:
        partitions: list[shapes.OngoingPartitionReassignmentFields] = []
        for index in indexes:
            state = image.partition(name, index)
            if state is not None and state.is_reassigning:
                partitions.append(
                    {
                        "partition_index": index,
                        "replicas": state.replicas,
                        "adding_replicas": state.adding,
                        "removing_replicas": state.removing,
                    }
                )
        if partitions:
            topics.append({"name": name, "partitions": partitions})
    request.respond(
        response(
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            request.version,
            error_code=ErrorCode.none,
            error_message=None,
            topics=topics,
        )
    )


def _failed(
    request: AnyRequest[shapes.ListPartitionReassignmentsRequest], error: ErrorCode, cause: str | None
) -> shapes.ListPartitionReassignmentsResponse:
    return response(
        ApiKey.LIST_PARTITION_REASSIGNMENTS, request.version, error_code=error, error_message=cause, topics=[]
    )


FORWARD: Forward[shapes.ListPartitionReassignmentsRequest, shapes.ListPartitionReassignmentsResponse] = Forward(
    version=0, failed=_failed
)
