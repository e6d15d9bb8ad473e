"""ConsumerGroupDescribe (key 69), versions 0-1: groups of the new protocol, with current and target assignments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from broker.coordinator.groups.events import DescribeConsumerGroup, DescribedConsumer, DescribedConsumerGroup
from broker.coordinator.groups.records import Assignment
from broker.node.handlers import operations
from broker.node.handlers.group_descriptions import describe_groups
from broker.node.handlers.services import Services
from broker.node.net.requests import Request
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import consumer_group_describe as shapes

CONSUMER_MEMBER = 1  # 0 is a member that uses the classic protocol (KIP-848 online upgrade)
_Names: TypeAlias = Mapping[UUID | None, str]  # names of topics by id; None is never a key


def handle(services: Services, request: Request[shapes.ConsumerGroupDescribeRequest]) -> None:
    names = services.metadata.image.topic_names

    def done(groups: list[shapes.DescribedGroupFields]) -> None:
        request.respond(response(ApiKey.CONSUMER_GROUP_DESCRIBE, request.version, groups=groups))

    describe_groups(
        services,
        request,
        DescribedConsumerGroup,
        is_on=services.groups.is_consumer_protocol_on,
        event=lambda token, group_id: DescribeConsumerGroup(token=token, group_id=group_id),
        told=lambda group_id, found, allowed: _group(group_id, found, names, allowed),
        failed=_failed,
        noun="consumer",
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


def _group(group_id: str, found: DescribedConsumerGroup, names: _Names, allowed: int) -> shapes.DescribedGroupFields:
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "group_id": group_id,
        "group_state": found.state,
        "group_epoch": found.group_epoch,
        "assignment_epoch": found.assignment_epoch,
        "assignor_name": found.assignor,
        "members": [_member(member, names) for member in found.members],
        "authorized_operations": allowed,
    }


def _member(member: DescribedConsumer, names: _Names) -> shapes.MemberFields:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": member.subscribed_topic_names,
        "subscribed_topic_regex": member.subscribed_topic_regex or "",
        "assignment": _assignment(member.assignment, names),
        "target_assignment": _assignment(member.target, names),
        "member_type": CONSUMER_MEMBER,
    }


def _assignment(assignment: Assignment, names: _Names) -> shapes.AssignmentFields:
    """A topic that was just deleted has no name any more and is left out, as in Kafka."""
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "topic_name": names[topic_id], "partitions": sorted(partitions)}
            for topic_id, partitions in sorted(assignment.items())
            if topic_id in names
        ]
    }
