"""OffsetCommit (key 8), versions 2-10: since 10 with topics by id. Answered once the offsets are replicated.

retention_time of versions 2-4 is ignored, as by Kafka since KIP-211: offsets live as long as their group is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinator.groups.events import CommitOffsets, CommitResult, OffsetToCommit
from broker.node.clock import wall_ms
from broker.node.control import guarded
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.node.broker import Broker
    from broker.node.connection import Request

MEMBER_EPOCHS_SINCE_VERSION = 9
TOPIC_IDS_SINCE_VERSION = 10


def handle(broker: Broker, request: Request) -> None:
    message, image = request.message, broker.metadata.image
    by_id = request.version >= TOPIC_IDS_SINCE_VERSION
    offsets: list[OffsetToCommit] = []
    absent = ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
    codes: dict[tuple[str, int], ErrorCode] = {}
    for topic in message.topics:
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
                    leader_epoch=getattr(each, "committed_leader_epoch", -1),
                    metadata=each.committed_metadata or "",
                    topic_id=state.topic_id,
                )
            )

    def answer(default: ErrorCode) -> None:
        topics = []
        for topic in message.topics:
            name = image.topic_names.get(topic.topic_id) if by_id else topic.name
            there = name is not None and name in image.topics
            if there and not topic.partitions:
                continue
            partitions = [
                {
                    "partition_index": each.partition_index,
                    "error_code": codes.get((str(name), each.partition_index), default) if there else absent,
                }
                for each in topic.partitions
            ]
            topics.append(
                {"topic_id" if by_id else "name": topic.topic_id if by_id else name, "partitions": partitions}
            )
        request.respond(response(ApiKey.OFFSET_COMMIT, request.version, topics=topics))

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
            instance_id=getattr(message, "group_instance_id", None),
            generation=message.generation_id_or_member_epoch,
            offsets=tuple(offsets),
            wall_ms=wall_ms(),
            knows_member_epochs=request.version >= MEMBER_EPOCHS_SINCE_VERSION,
        )

    broker.groups.ask(
        message.group_id, event, CommitResult, done=guarded(request, done), refused=guarded(request, answer)
    )
