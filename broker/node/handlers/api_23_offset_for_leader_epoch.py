"""OffsetForLeaderEpoch (key 23), versions 2-4: where an epoch ends in this broker's log. Clients use it to check for
truncation. Followers of this broker learn it from Fetch instead. Nothing is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import offset_for_leader_epoch as shapes


def handle(services: Services, request: AnyRequest[shapes.OffsetForLeaderEpochRequest]) -> None:
    topics: list[shapes.OffsetForLeaderTopicResultFields] = [
        {"topic": topic.topic, "partitions": [_partition(services, topic.topic, each) for each in topic.partitions]}
        for topic in request.message.topics
    ]
    request.respond(response(ApiKey.OFFSET_FOR_LEADER_EPOCH, request.version, topics=topics))


def _partition(services: Services, topic: str, asked: shapes.OffsetForLeaderPartition) -> shapes.EpochEndOffsetFields:
    hosted = services.partitions.get(topic, asked.partition)
    if hosted is None:
        error = services.absent(topic, asked.partition)
    elif not hosted.replica.is_leader:
        error = ErrorCode.not_leader_or_follower
    else:
        error = hosted.replica.check_leader_epoch(asked.current_leader_epoch)
    result: shapes.EpochEndOffsetFields = {
        "error_code": error,
        "partition": asked.partition,
        "leader_epoch": -1,
        "end_offset": -1,
    }
    if hosted is not None and error is ErrorCode.none:
        result["leader_epoch"], result["end_offset"] = hosted.log.end_offset_for_epoch(asked.leader_epoch)
    return result
