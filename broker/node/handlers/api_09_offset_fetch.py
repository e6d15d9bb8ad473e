"""OffsetFetch (key 9), versions 1-10: the committed offsets of one group, since version 8 of several groups (KIP-709),
and since version 10 with topics by id.

With require_stable (version 7 and above), a partition with a pending offset of an open transaction gets
UNSTABLE_OFFSET_COMMIT (KIP-447).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from broker.coordinator.groups.events import FetchedOffset, FetchOffsets, FetchResult
from broker.node.handlers.services import Services
from broker.node.net.requests import Request, guarded
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response

if TYPE_CHECKING:
    from broker.wire.shapes import offset_fetch as shapes

TOP_LEVEL_ERROR_SINCE_VERSION = 2
GROUPS_SINCE_VERSION = 8
TOPIC_IDS_SINCE_VERSION = 10


# (the id, if the request uses ids; the name, or None if it is unknown; partitions)
_Topic: TypeAlias = tuple[UUID | None, str | None, tuple[int, ...]]


@dataclass(slots=True, kw_only=True)
class _Asked:
    """One group of the request, and later its answer."""

    group_id: str
    member_id: str | None
    member_epoch: int
    topics: list[_Topic] | None
    error_code: ErrorCode = ErrorCode.none
    offsets: Mapping[tuple[str, int], FetchedOffset] = field(default_factory=dict)


def handle(services: Services, request: Request[shapes.OffsetFetchRequest]) -> None:
    asked = _asked(services, request)
    waiting = len(asked)
    if not asked:
        request.respond(response(ApiKey.OFFSET_FETCH, request.version, groups=[]))

    def answered() -> None:
        nonlocal waiting
        waiting -= 1
        if waiting == 0:
            _answer(services, request, asked)

    for each in asked:
        _ask(services, request, each, answered)


def _asked(services: Services, request: Request[shapes.OffsetFetchRequest]) -> list[_Asked]:
    message, version = request.message, request.version
    by_id = version >= TOPIC_IDS_SINCE_VERSION
    names = services.metadata.image.topic_names

    def topics_of(group: shapes.OffsetFetchRequestGroup) -> list[_Topic] | None:
        if group.topics is None:
            return None
        if not by_id:
            return [(None, topic.name, topic.partition_indexes) for topic in group.topics]
        return [(topic.topic_id, names.get(topic.topic_id), topic.partition_indexes) for topic in group.topics]

    if version < GROUPS_SINCE_VERSION:
        asked = message.topics
        topics: list[_Topic] | None = None
        if asked is not None:
            topics = [(None, topic.name, topic.partition_indexes) for topic in asked]
        return [_Asked(group_id=message.group_id, member_id=None, member_epoch=-1, topics=topics)]
    return [
        _Asked(
            group_id=group.group_id,
            member_id=field_or(group, "member_id", None),
            member_epoch=field_or(group, "member_epoch", -1),
            topics=topics_of(group),
        )
        for group in message.groups
    ]


def _ask(
    services: Services, request: Request[shapes.OffsetFetchRequest], each: _Asked, answered: Callable[[], None]
) -> None:
    topics: dict[str, tuple[int, ...]] | None = None
    if each.topics is not None:
        topics = {}
        for _, name, partitions in each.topics:
            if name is not None:
                topics[name] = (*topics.get(name, ()), *partitions)

    def done(result: FetchResult) -> None:
        each.error_code, each.offsets = result.error_code, result.partitions
        answered()

    def refused(error: ErrorCode) -> None:
        each.error_code = error
        answered()

    def event(token: int) -> FetchOffsets:
        return FetchOffsets(
            token=token,
            group_id=each.group_id,
            member_id=each.member_id,
            member_epoch=each.member_epoch,
            topics=topics,
            require_stable=field_or(request.message, "require_stable", False),
        )

    services.groups.ask(
        each.group_id, event, FetchResult, done=guarded(request, done), refused=guarded(request, refused)
    )


def _answer(services: Services, request: Request[shapes.OffsetFetchRequest], asked: list[_Asked]) -> None:
    version = request.version
    if version >= GROUPS_SINCE_VERSION:
        groups: list[shapes.OffsetFetchResponseGroupFields] = [
            {
                "group_id": each.group_id,
                "topics": _topics(services, each, by_id=version >= TOPIC_IDS_SINCE_VERSION),
                "error_code": each.error_code,
            }
            for each in asked
        ]
        request.respond(response(ApiKey.OFFSET_FETCH, version, groups=groups))
        return
    only = asked[0]
    error = only.error_code if version >= TOP_LEVEL_ERROR_SINCE_VERSION else ErrorCode.none
    topics = _topics(services, only, by_id=False, tells_error=version < TOP_LEVEL_ERROR_SINCE_VERSION)
    request.respond(response(ApiKey.OFFSET_FETCH, version, topics=topics, error_code=error))


def _topics(
    services: Services, each: _Asked, *, by_id: bool, tells_error: bool = False
) -> list[shapes.OffsetFetchResponseTopicsFields]:
    if each.error_code is not ErrorCode.none and not tells_error:
        return []
    absent = FetchedOffset(error_code=each.error_code)
    topics: list[_Topic] = []
    if each.topics is None:
        by_name: dict[str, list[int]] = {}
        for name, partition in sorted(each.offsets):
            by_name.setdefault(name, []).append(partition)
        states = services.metadata.image.topics
        for name, found in by_name.items():
            if not by_id:
                topics.append((None, name, tuple(found)))
            elif name in states:
                topics.append((states[name].topic_id, name, tuple(found)))
    else:
        topics = each.topics
    result: list[shapes.OffsetFetchResponseTopicsFields] = []
    for topic_id, known, partitions in topics:
        unknown = FetchedOffset(error_code=ErrorCode.unknown_topic_id)
        default = unknown if known is None and by_id else absent
        answers = [
            _partition(index, default if known is None else each.offsets.get((known, index), default))
            for index in partitions
        ]
        if by_id:
            result.append({"topic_id": topic_id, "partitions": answers})
        else:
            result.append({"name": str(known), "partitions": answers})
    return result


def _partition(index: int, found: FetchedOffset) -> shapes.OffsetFetchResponsePartitionsFields:
    return {
        "partition_index": index,
        "committed_offset": found.offset,
        "committed_leader_epoch": found.leader_epoch,
        "metadata": found.metadata,
        "error_code": found.error_code,
    }
