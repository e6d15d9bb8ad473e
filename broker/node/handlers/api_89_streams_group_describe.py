"""StreamsGroupDescribe (key 89), version 0: streams groups with their topology, members and tasks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker.coordinator.groups.streams.configured import InternalTopic
from broker.coordinator.groups.streams.events import (
    DescribedStreamsGroup,
    DescribedStreamsMember,
    DescribedSubtopology,
    DescribeStreamsGroup,
)
from broker.coordinator.groups.streams.tasks import TaskMap, Tasks
from broker.node.handlers import operations
from broker.node.handlers.group_descriptions import describe_groups
from broker.node.handlers.services import Services
from broker.node.net.requests import Request
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import streams_group_describe as shapes


def handle(services: Services, request: Request[shapes.StreamsGroupDescribeRequest]) -> None:
    def done(groups: list[shapes.DescribedGroupFields]) -> None:
        request.respond(response(ApiKey.STREAMS_GROUP_DESCRIBE, request.version, groups=groups))

    describe_groups(
        services,
        request,
        DescribedStreamsGroup,
        is_on=services.groups.is_streams_protocol_on,
        event=lambda token, group_id: DescribeStreamsGroup(token=token, group_id=group_id),
        told=_group,
        failed=_failed,
        noun="streams",
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
        "topology": None,
        "members": [],
        "authorized_operations": operations.NOT_ASKED,
    }


def _group(group_id: str, found: DescribedStreamsGroup, allowed: int) -> shapes.DescribedGroupFields:
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "group_id": group_id,
        "group_state": found.state,
        "group_epoch": found.group_epoch,
        "assignment_epoch": found.assignment_epoch,
        "topology": {
            "epoch": found.topology_epoch,
            "subtopologies": [_subtopology(each) for each in found.subtopologies],
        },
        "members": [_member(member) for member in found.members],
        "authorized_operations": allowed,
    }


def _subtopology(each: DescribedSubtopology) -> shapes.SubtopologyFields:
    return {
        "subtopology_id": each.subtopology_id,
        "source_topics": each.source_topics,
        "repartition_sink_topics": each.repartition_sink_topics,
        "state_changelog_topics": _topics(each.state_changelog_topics),
        "repartition_source_topics": _topics(each.repartition_source_topics),
    }


def _topics(topics: Iterable[InternalTopic]) -> list[shapes.TopicInfoFields]:
    return [
        {
            "name": topic.name,
            "partitions": topic.partitions,
            "replication_factor": topic.replication_factor,
            "topic_configs": [{"key": key, "value": value} for key, value in topic.configs],
        }
        for topic in topics
    ]


def _member(member: DescribedStreamsMember) -> shapes.MemberFields:
    endpoint = member.user_endpoint
    return {
        "member_id": member.member_id,
        "member_epoch": member.member_epoch,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "topology_epoch": member.topology_epoch,
        "process_id": member.process_id,
        "user_endpoint": None if endpoint is None else {"host": endpoint[0], "port": endpoint[1]},
        "client_tags": [{"key": key, "value": value} for key, value in sorted(member.client_tags.items())],
        "task_offsets": [],
        "task_end_offsets": [],
        "assignment": _assignment(member.assignment),
        "target_assignment": _assignment(member.target),
        "is_classic": False,
    }


def _assignment(tasks: Tasks) -> shapes.AssignmentFields:
    return {
        "active_tasks": _task_ids(tasks.active),
        "standby_tasks": _task_ids(tasks.standby),
        "warmup_tasks": _task_ids(tasks.warmup),
    }


def _task_ids(tasks: TaskMap) -> list[shapes.TaskIdsFields]:
    return [
        {"subtopology_id": subtopology_id, "partitions": sorted(indexes)}
        for subtopology_id, indexes in sorted(tasks.items())
    ]
