"""ShareGroupDescribe (key 77), version 1: share groups with their members and what these read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from broker.coordinator.groups.share_assignor import NAME as ASSIGNOR
from broker.coordinator.groups.share_events import DescribedShareGroup, DescribedShareMember, DescribeShareGroup
from broker.node.handlers import operations
from broker.node.handlers.gather import Gather
from broker.node.handlers.services import Services
from broker.node.net.requests import Request, guarded
from broker.security.acls import ResourceType
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import share_group_describe as shapes


def handle(services: Services, request: Request[shapes.ShareGroupDescribeRequest]) -> None:
    group_ids = request.message.group_ids

    def done(groups: list[shapes.DescribedGroupFields]) -> None:
        request.respond(response(ApiKey.SHARE_GROUP_DESCRIBE, request.version, groups=groups))

    gather: Gather[shapes.DescribedGroupFields] = Gather(len(group_ids), done)
    for position, group_id in enumerate(group_ids):
        _ask(services, request, group_id, gather, position)


def _ask(
    services: Services,
    request: Request[shapes.ShareGroupDescribeRequest],
    group_id: str,
    gather: Gather[shapes.DescribedGroupFields],
    position: int,
) -> None:
    are_asked = request.message.include_authorized_operations
    allowed = operations.asked(are_asked, request.access, ResourceType.GROUP, group_id)
    put, names = gather.slot(position), services.metadata.image.topic_names

    def done(found: object) -> None:
        if isinstance(found, DescribedShareGroup):
            put(_group(group_id, found, names, allowed))
        else:
            put(_failed(group_id, ErrorCode.group_id_not_found, f"Group {group_id} not found."))

    def refused(error: ErrorCode) -> None:
        put(_failed(group_id, error, None))

    def event(token: int) -> DescribeShareGroup:
        return DescribeShareGroup(token=token, group_id=group_id)

    if not services.groups.is_share_protocol_on:
        refused(ErrorCode.unsupported_version)
    elif not group_id:
        refused(ErrorCode.invalid_group_id)
    else:
        services.groups.ask(group_id, event, object, done=guarded(request, done), refused=guarded(request, refused))


def _failed(group_id: str, error: ErrorCode, message: str | None) -> shapes.DescribedGroupFields:
    return {
        "error_code": error,
        "error_message": message,
        "group_id": group_id,
        "group_state": "",
        "group_epoch": 0,
        "assignment_epoch": 0,
        "assignor_name": "",
        "members": [],
        "authorized_operations": operations.NOT_ASKED,
    }


def _group(
    group_id: str, found: DescribedShareGroup, names: Mapping[UUID | None, str], allowed: int
) -> shapes.DescribedGroupFields:
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "group_id": group_id,
        "group_state": found.state,
        "group_epoch": found.group_epoch,
        "assignment_epoch": found.assignment_epoch,
        "assignor_name": ASSIGNOR,
        "members": [_member(member, names) for member in found.members],
        "authorized_operations": allowed,
    }


def _member(member: DescribedShareMember, names: Mapping[UUID | None, str]) -> shapes.MemberFields:
    """A topic that was just deleted has no name any more and is left out, as by Kafka."""
    partitions: list[shapes.TopicPartitionsFields] = [
        {"topic_id": topic_id, "topic_name": names[topic_id], "partitions": sorted(indexes)}
        for topic_id, indexes in sorted(member.assignment.items())
        if topic_id in names
    ]
    return {
        "member_id": member.member_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": member.subscribed_topic_names,
        "assignment": {"topic_partitions": partitions},
    }
