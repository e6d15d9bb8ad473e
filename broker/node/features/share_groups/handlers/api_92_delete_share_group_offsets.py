"""DeleteShareGroupOffsets (key 92), version 0: a share group without members forgets topics, with their states."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from broker.node.features.share_groups.groups.events import DeletedShares, DeleteShares, SharesDeleted
from broker.node.features.share_groups.part import SharePart
from broker.node.handlers.services import Services
from broker.node.net.requests import Request, guarded
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import delete_share_group_offsets as shapes


def handle(services: Services, request: Request[shapes.DeleteShareGroupOffsetsRequest]) -> None:
    message = request.message
    if not services.part(SharePart).is_on:
        _fail(request, ErrorCode.unsupported_version)
        return
    if not message.group_id:
        _fail(request, ErrorCode.invalid_group_id)
        return

    def done(result: DeletedShares) -> None:
        if result.error_code is not ErrorCode.none:
            _fail(request, result.error_code, result.error_message)
        else:
            services.serve(request, _delete(services, request, result))

    def refused(error: ErrorCode) -> None:
        _fail(request, error)

    def event(token: int) -> DeleteShares:
        names = tuple(topic.topic_name for topic in message.topics)
        return DeleteShares(token=token, group_id=message.group_id, topics=names)

    services.groups.ask(
        message.group_id, event, DeletedShares, done=guarded(request, done), refused=guarded(request, refused)
    )


async def _delete(
    services: Services, request: Request[shapes.DeleteShareGroupOffsetsRequest], begun: DeletedShares
) -> None:
    group_id = request.message.group_id
    places = [(topic_id, index) for topic_id, indexes in begun.to_delete.items() for index in sorted(indexes)]
    results = await services.part(SharePart).shares.persister.delete(group_id, places)
    failed: dict[UUID, tuple[ErrorCode, str]] = {
        place[0]: (result.error_code, result.message or "")
        for place, result in results.items()
        if result.error_code is not ErrorCode.none
    }

    def told(error: ErrorCode) -> None:
        if error is ErrorCode.none:
            _respond(services, request, begun, failed)
        else:
            _fail(request, error)

    def event(token: int) -> SharesDeleted:
        gone = frozenset(topic_id for topic_id in begun.to_delete if topic_id not in failed)
        return SharesDeleted(token=token, group_id=group_id, topic_ids=gone)

    answer = guarded(request, told)
    services.groups.ask(group_id, event, ErrorCode, done=answer, refused=answer)


def _respond(
    services: Services,
    request: Request[shapes.DeleteShareGroupOffsetsRequest],
    begun: DeletedShares,
    failed: dict[UUID, tuple[ErrorCode, str]],
) -> None:
    responses: list[shapes.DeleteShareGroupOffsetsResponseTopicFields] = []
    for topic in request.message.topics:
        known = services.metadata.image.topics.get(topic.topic_name)
        topic_id = None if known is None else known.topic_id
        error, text = begun.errors.get(topic.topic_name, (ErrorCode.none, ""))
        if topic_id is not None and topic_id in failed:
            error, text = failed[topic_id]
        responses.append(
            {
                "topic_name": topic.topic_name,
                "topic_id": topic_id,
                "error_code": error,
                "error_message": text or None,
            }
        )
    request.respond(
        response(
            ApiKey.DELETE_SHARE_GROUP_OFFSETS,
            request.version,
            error_code=ErrorCode.none,
            error_message=None,
            responses=responses,
        )
    )


def _fail(request: Request[shapes.DeleteShareGroupOffsetsRequest], error: ErrorCode, text: str | None = None) -> None:
    request.respond(
        response(ApiKey.DELETE_SHARE_GROUP_OFFSETS, request.version, error_code=error, error_message=text, responses=[])
    )
