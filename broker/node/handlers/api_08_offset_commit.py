"""OffsetCommit (key 8), versions 2-10: commits offsets of a group; since version 10 with topics by id. The answer is
sent when the offsets are replicated.

As in Kafka since KIP-211, retention_time of versions 2-4 is ignored: offsets are kept as long as their group is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker.controller.image import MetadataImage
from broker.coordinator.groups.events import CommitOffsets, CommitResult, OffsetToCommit
from broker.node.handlers.services import Services
from broker.node.net.requests import Request, guarded
from broker.node.process.clock import wall_ms
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response

if TYPE_CHECKING:
    from broker.wire.shapes import offset_commit as shapes

MEMBER_EPOCHS_SINCE_VERSION = 9
TOPIC_IDS_SINCE_VERSION = 10


def handle(services: Services, request: Request[shapes.OffsetCommitRequest]) -> None:
    message, image = request.message, services.metadata.image
    offsets, codes = _asked(request, image)

    def answer(default: ErrorCode) -> None:
        request.respond(_answer(request, image, codes, default))

    def done(result: CommitResult) -> None:
        codes.update(result.partitions)
        answer(result.error_code)

    if not offsets:
        answer(ErrorCode.none)  # every partition has its own error
        return

    def event(token: int) -> CommitOffsets:
        return CommitOffsets(
            token=token,
            group_id=message.group_id,
            member_id=message.member_id,
            instance_id=field_or(message, "group_instance_id", None),
            generation=message.generation_id_or_member_epoch,
            offsets=tuple(offsets),
            wall_ms=wall_ms(),
            knows_member_epochs=request.version >= MEMBER_EPOCHS_SINCE_VERSION,
        )

    services.groups.ask(
        message.group_id, event, CommitResult, done=guarded(request, done), refused=guarded(request, answer)
    )


def _asked(
    request: Request[shapes.OffsetCommitRequest], image: MetadataImage
) -> tuple[list[OffsetToCommit], dict[tuple[str, int], ErrorCode]]:
    """The offsets to commit, and the errors of partitions that do not exist in their topics."""
    by_id = request.version >= TOPIC_IDS_SINCE_VERSION
    offsets: list[OffsetToCommit] = []
    codes: dict[tuple[str, int], ErrorCode] = {}
    for topic in request.message.topics:
        name = image.topic_names.get(topic.topic_id) if by_id else topic.name
        state = None if name is None else image.topics.get(name)
        for each in topic.partitions:
            if name is None or state is None:
                continue
            if not 0 <= each.partition_index < len(state.partitions):
                codes[name, each.partition_index] = ErrorCode.unknown_topic_or_partition
                continue
            offsets.append(
                OffsetToCommit(
                    topic=name,
                    partition=each.partition_index,
                    offset=each.committed_offset,
                    leader_epoch=field_or(each, "committed_leader_epoch", -1),
                    metadata=each.committed_metadata or "",
                    topic_id=state.topic_id,
                )
            )
    return offsets, codes


def _answer(
    request: Request[shapes.OffsetCommitRequest],
    image: MetadataImage,
    codes: Mapping[tuple[str, int], ErrorCode],
    default: ErrorCode,
) -> shapes.OffsetCommitResponse:
    """`image` is the metadata image with which the request was handled."""
    by_id = request.version >= TOPIC_IDS_SINCE_VERSION
    absent = ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
    topics: list[shapes.OffsetCommitResponseTopicFields] = []
    for topic in request.message.topics:
        name = image.topic_names.get(topic.topic_id) if by_id else topic.name
        there = name is not None and name in image.topics
        if there and not topic.partitions:
            continue
        partitions: list[shapes.OffsetCommitResponsePartitionFields] = [
            {
                "partition_index": each.partition_index,
                "error_code": codes.get((str(name), each.partition_index), default) if there else absent,
            }
            for each in topic.partitions
        ]
        if by_id:
            topics.append({"topic_id": topic.topic_id, "partitions": partitions})
        else:
            topics.append({"name": topic.name, "partitions": partitions})
    return response(ApiKey.OFFSET_COMMIT, request.version, topics=topics)
