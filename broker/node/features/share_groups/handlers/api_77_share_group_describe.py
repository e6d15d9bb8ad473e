"""ShareGroupDescribe (key 77), version 1: share groups with their members and the members' partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from broker.node.features.share_groups.groups.assignor import NAME as ASSIGNOR
from broker.node.features.share_groups.groups.events import (
    DescribedShareGroup,
    DescribedShareMember,
    DescribeShareGroup,
)
from broker.node.features.share_groups.part import SharePart
from broker.node.handlers import operations
from broker.node.handlers.group_descriptions import describe_groups
from broker.node.handlers.services import Services
from broker.node.net.requests import Request
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import share_group_describe as shapes


def handle(services: Services, request: Request[shapes.ShareGroupDescribeRequest]) -> None:
    names = services.metadata.image.topic_names

    def done(groups: list[shapes.DescribedGroupFields]) -> None:
        request.respond(response(ApiKey.SHARE_GROUP_DESCRIBE, request.version, groups=groups))

    describe_groups(
        services,
        request,
        DescribedShareGroup,
        is_on=services.part(SharePart).is_on,
        event=lambda token, group_id: DescribeShareGroup(token=token, group_id=group_id),
        told=lambda group_id, found, allowed: _group(group_id, found, names, allowed),
        failed=_failed,
        noun="share",
        done=done,
    )


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
    """A topic that was just deleted has no name any more and is left out, as in Kafka."""
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
