"""OffsetDelete (key 47), version 0: removes committed offsets of topics that the group does not consume (KIP-496)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinator.groups.events import DeleteOffsets, DeleteOffsetsResult
from broker.node.handlers.services import Services
from broker.node.net.requests import Request, guarded
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import offset_delete as shapes


def handle(services: Services, request: Request[shapes.OffsetDeleteRequest]) -> None:
    message, image = request.message, services.metadata.image
    places = tuple(
        (topic.name, each.partition_index)
        for topic in message.topics
        for each in topic.partitions
        if image.partition(topic.name, each.partition_index) is not None
    )

    def done(result: DeleteOffsetsResult) -> None:
        if result.error_code is not ErrorCode.none:
            request.respond(response(ApiKey.OFFSET_DELETE, request.version, error_code=result.error_code, topics=[]))
            return
        absent = ErrorCode.unknown_topic_or_partition
        answers: list[shapes.OffsetDeleteResponseTopicFields] = [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": each.partition_index,
                        "error_code": result.partitions.get((topic.name, each.partition_index), absent),
                    }
                    for each in topic.partitions
                ],
            }
            for topic in message.topics
        ]
        request.respond(response(ApiKey.OFFSET_DELETE, request.version, error_code=ErrorCode.none, topics=answers))

    def refused(error: ErrorCode) -> None:
        done(DeleteOffsetsResult(error_code=error, partitions={}))

    def event(token: int) -> DeleteOffsets:
        return DeleteOffsets(token=token, group_id=message.group_id, partitions=places)

    if not message.group_id:
        refused(ErrorCode.invalid_group_id)
        return
    services.groups.ask(
        message.group_id, event, DeleteOffsetsResult, done=guarded(request, done), refused=guarded(request, refused)
    )
