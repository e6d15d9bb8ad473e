"""AlterShareGroupOffsets (key 91), version 0: new start offsets for a share group without members. The group is created
if it does not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from broker.node.features.share_groups.groups.events import AlteredShares, AlterShares, SharesInitialized
from broker.node.features.share_groups.part import SharePart
from broker.node.features.share_groups.persister import Place
from broker.node.features.share_groups.states.shard import StateResult
from broker.node.handlers.services import Services
from broker.node.net.requests import Request, guarded
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import alter_share_group_offsets as shapes

_UNKNOWN = StateResult(
    error_code=ErrorCode.unknown_topic_or_partition, message="This server does not host this topic-partition."
)


def handle(services: Services, request: Request[shapes.AlterShareGroupOffsetsRequest]) -> None:
    message = request.message
    if not services.part(SharePart).is_on:
        _fail(request, ErrorCode.unsupported_version)
        return
    if not message.group_id:
        _fail(request, ErrorCode.invalid_group_id)
        return

    def done(result: AlteredShares) -> None:
        if result.error_code is not ErrorCode.none:
            _fail(request, result.error_code, result.error_message)
        else:
            services.serve(request, _initialize(services, request, result))

    def refused(error: ErrorCode) -> None:
        _fail(request, error)

    def event(token: int) -> AlterShares:
        return AlterShares(token=token, group_id=message.group_id, offsets=_offsets_of(message))

    services.groups.ask(
        message.group_id, event, AlteredShares, done=guarded(request, done), refused=guarded(request, refused)
    )


def _offsets_of(message: shapes.AlterShareGroupOffsetsRequest) -> dict[str, dict[int, int]]:
    """By topic and partition. A topic, or a partition, may be named twice."""
    offsets: dict[str, dict[int, int]] = {}
    for topic in message.topics:
        found = offsets.setdefault(topic.topic_name, {})
        found.update((each.partition_index, each.start_offset) for each in topic.partitions)
    return offsets


async def _initialize(
    services: Services, request: Request[shapes.AlterShareGroupOffsetsRequest], altered: AlteredShares
) -> None:
    group_id = request.message.group_id
    persister = services.part(SharePart).shares.persister
    states = await persister.initialize(group_id, altered.state_epoch, altered.to_initialize)
    made: dict[UUID, set[int]] = {}
    for (topic_id, index), result in states.items():
        if result.error_code is ErrorCode.none:
            made.setdefault(topic_id, set()).add(index)

    def told(error: ErrorCode) -> None:
        if error is ErrorCode.none:
            _respond(services, request, states)
        else:
            _fail(request, error)

    def event(token: int) -> SharesInitialized:
        partitions = {topic_id: frozenset(indexes) for topic_id, indexes in made.items()}
        return SharesInitialized(token=token, group_id=group_id, partitions=partitions, is_done=True)

    answer = guarded(request, told)
    services.groups.ask(group_id, event, ErrorCode, done=answer, refused=answer)


def _respond(
    services: Services, request: Request[shapes.AlterShareGroupOffsetsRequest], states: dict[Place, StateResult]
) -> None:
    responses: list[shapes.AlterShareGroupOffsetsResponseTopicFields] = []
    named: dict[str, list[int]] = {}
    for topic in request.message.topics:
        named.setdefault(topic.topic_name, []).extend(each.partition_index for each in topic.partitions)
    for name, indexes in named.items():
        known = services.metadata.image.topics.get(name)
        if known is None and not indexes:
            continue
        topic_id = None if known is None else known.topic_id
        partitions: list[shapes.AlterShareGroupOffsetsResponsePartitionFields] = []
        for index in indexes:
            result = _UNKNOWN if topic_id is None else states.get((topic_id, index), _UNKNOWN)
            partitions.append(
                {"partition_index": index, "error_code": result.error_code, "error_message": result.message}
            )
        responses.append({"topic_name": name, "topic_id": topic_id, "partitions": partitions})
    request.respond(
        response(
            ApiKey.ALTER_SHARE_GROUP_OFFSETS,
            request.version,
            error_code=ErrorCode.none,
            error_message=None,
            responses=responses,
        )
    )


def _fail(request: Request[shapes.AlterShareGroupOffsetsRequest], error: ErrorCode, text: str | None = None) -> None:
    request.respond(
        response(ApiKey.ALTER_SHARE_GROUP_OFFSETS, request.version, error_code=error, error_message=text, responses=[])
    )
