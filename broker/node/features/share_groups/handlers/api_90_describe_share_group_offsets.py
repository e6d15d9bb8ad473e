"""DescribeShareGroupOffsets (key 90), versions 0-1: the start offsets of share groups in their partitions. Version 1
adds the lag.

The lag is the number of records that are not processed: the records from the start offset to the end, without those
that members have already processed. It needs the end offset of each partition, for which the broker asks the
partition's leader. -1 means that the lag is not known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from broker.controller.image import MetadataImage
from broker.coordinator.groups.records import Assignment
from broker.node.features.share_groups.groups.events import BegunShares, SharesOf
from broker.node.features.share_groups.part import SharePart
from broker.node.features.share_groups.persister import Place
from broker.node.features.share_groups.states.records import NO_COUNT
from broker.node.features.share_groups.states.shard import StateResult
from broker.node.handlers.gather import Gather
from broker.node.handlers.services import Services
from broker.node.net.channel import ChannelError
from broker.node.net.requests import Request, guarded
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request as make_request
from broker.wire.messages import response

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.wire.shapes import describe_share_group_offsets as shapes
    from broker.wire.shapes.list_offsets import ListOffsetsTopicFields

    _Put = Callable[[shapes.DescribeShareGroupOffsetsResponseGroupFields], None]

LIST_OFFSETS_VERSION, LATEST, TIMEOUT_MS = 7, -1, 5_000
UNKNOWN = -1


def handle(services: Services, request: Request[shapes.DescribeShareGroupOffsetsRequest]) -> None:
    groups = request.message.groups

    def done(found: list[shapes.DescribeShareGroupOffsetsResponseGroupFields]) -> None:
        request.respond(response(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, request.version, groups=found))

    gather: Gather[shapes.DescribeShareGroupOffsetsResponseGroupFields] = Gather(len(groups), done)
    for position, group in enumerate(groups):
        _ask(services, request, group, gather.slot(position))


def _ask(
    services: Services,
    request: Request[shapes.DescribeShareGroupOffsetsRequest],
    group: shapes.DescribeShareGroupOffsetsRequestGroup,
    put: _Put,
) -> None:
    def refused(error: ErrorCode) -> None:
        put({"group_id": group.group_id, "topics": [], "error_code": error, "error_message": None})

    def done(found: BegunShares) -> None:
        services.serve(request, _describe(services, group, found.partitions, put))

    if not services.part(SharePart).is_on:
        refused(ErrorCode.unsupported_version)
    else:
        services.groups.ask(
            group.group_id,
            lambda token: SharesOf(token=token, group_id=group.group_id),
            BegunShares,
            done=guarded(request, done),
            refused=guarded(request, refused),
        )


async def _describe(
    services: Services, group: shapes.DescribeShareGroupOffsetsRequestGroup, begun: Assignment, put: _Put
) -> None:
    image = services.metadata.image
    wanted = _wanted(image, group, begun)
    # As in Kafka, the group without a name has no states, and its topics no ids.
    topic_ids = {name: image.topics[name].topic_id for name, _ in wanted if name in image.topics and group.group_id}
    places = {
        (name, index): (topic_ids[name], index)
        for name, indexes in wanted
        for index in indexes
        if name in topic_ids and image.partition(name, index) is not None
    }
    states = await services.part(SharePart).shares.persister.summaries(group.group_id, places.values())
    ends = await _end_offsets(services, [key for key, place in places.items() if _has_lag(states[place])])

    def partition(name: str, index: int) -> shapes.DescribeShareGroupOffsetsResponsePartitionFields:
        return _partition(index, places.get((name, index)), states, ends.get((name, index)))

    put(
        {
            "group_id": group.group_id,
            "error_code": ErrorCode.none,
            "error_message": None,
            "topics": [
                {
                    "topic_name": name,
                    "topic_id": topic_ids.get(name),
                    "partitions": [partition(name, index) for index in indexes],
                }
                for name, indexes in wanted
            ],
        }
    )


def _wanted(
    image: MetadataImage, group: shapes.DescribeShareGroupOffsetsRequestGroup, begun: Assignment
) -> list[tuple[str, Sequence[int]]]:
    """The topics of the answer and their partitions. If the request names none, these are all that the group has begun
    with. As in Kafka, topics that do not exist come first, and only those that exist are told once."""
    if group.topics is None:
        names = image.topic_names
        return [(names[topic_id], sorted(begun[topic_id])) for topic_id in sorted(begun) if topic_id in names]
    absent: list[tuple[str, Sequence[int]]] = []
    existing: dict[str, dict[int, None]] = {}
    for topic in group.topics:
        if topic.topic_name in image.topics:
            existing.setdefault(topic.topic_name, {}).update(dict.fromkeys(topic.partitions))
        else:
            absent.append((topic.topic_name, topic.partitions))
    return absent + [(name, list(indexes)) for name, indexes in existing.items()]


def _partition(
    index: int, place: Place | None, states: Mapping[Place, StateResult], end_offset: int | None
) -> shapes.DescribeShareGroupOffsetsResponsePartitionFields:
    """The entry of a partition. If the group has no state for it, or if it does not exist, it has no offset. The lag is
    negative if an administrator has set a start offset beyond the end, as in Kafka."""
    state = None if place is None else states[place]
    is_known = state is not None and state.error_code is ErrorCode.none
    lag = UNKNOWN
    if state is not None and is_known and end_offset is not None and _has_lag(state):
        lag = end_offset - state.start_offset - state.delivery_complete_count
    return {
        "partition_index": index,
        "start_offset": state.start_offset if state is not None and is_known else UNKNOWN,
        "leader_epoch": state.leader_epoch if state is not None and is_known else 0,
        "lag": lag,
        "error_code": ErrorCode.none if state is None else state.error_code,
        "error_message": None if state is None else state.message,
    }


def _has_lag(state: StateResult) -> bool:
    return state.start_offset >= 0 and state.delivery_complete_count != NO_COUNT


async def _end_offsets(services: Services, keys: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """The high watermarks, from the leaders. Partitions whose leader does not answer are left out."""
    by_leader: dict[int, dict[str, list[int]]] = {}
    for name, index in keys:
        state = services.metadata.image.partition(name, index)
        if state is not None and state.leader >= 0:
            by_leader.setdefault(state.leader, {}).setdefault(name, []).append(index)
    answers = await asyncio.gather(*[_ask_leader(services, leader, asked) for leader, asked in by_leader.items()])
    return {key: offset for answer in answers for key, offset in answer.items()}


async def _ask_leader(services: Services, leader: int, asked: dict[str, list[int]]) -> dict[tuple[str, int], int]:
    topics: list[ListOffsetsTopicFields] = [
        {"name": name, "partitions": [{"partition_index": index, "timestamp": LATEST} for index in indexes]}
        for name, indexes in asked.items()
    ]
    message = make_request(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, replica_id=-1, isolation_level=0, topics=topics)
    try:
        answer = await services.part(SharePart).peers.call(
            leader, ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, message, timeout_ms=TIMEOUT_MS
        )
    except ChannelError:
        return {}
    return {
        (topic.name, part.partition_index): part.offset
        for topic in answer.topics
        for part in topic.partitions
        if part.error_code is ErrorCode.none
    }
