"""Rules of the APIs of share groups (KIP-932): members, their records, and the offsets of groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from broker.node.handlers.authorization.groups import (
    described_group,
    heartbeat_refused,
    hide_topics_of_members,
    may_describe_subscribed,
)
from broker.node.handlers.authorization.rules import (
    AnyApi,
    Entry,
    Item,
    Need,
    Step,
    divided,
    each,
    made,
    rule,
    top,
    whole,
)
from broker.node.handlers.services import Services
from broker.security.acls import Operation, ResourceType
from broker.security.authorizer import Access
from broker.wire.errors import ErrorCode

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
READ, DESCRIBE, DELETE = Operation.READ, Operation.DESCRIBE, Operation.DELETE
_FAILED = "GROUP_AUTHORIZATION_FAILED"
_NO_CLUSTER_ACTION = "Cluster authorization failed."  # the words of Apache Kafka


def _group(message: Any) -> str | None:
    return None if message.group_id is None else str(message.group_id)


# -- members


SHARE_GROUP_HEARTBEAT = rule(
    whole(READ, GROUP, _group, heartbeat_refused, _FAILED),
    (Need(operation=DESCRIBE, resource=TOPIC, otherwise="TOPIC_AUTHORIZATION_FAILED"), may_describe_subscribed),
)


SHARE_GROUP_DESCRIBE = rule(
    each(DESCRIBE, GROUP, "group_ids", described_group, "groups", lambda services, item: str(item)),
    (
        Need(operation=DESCRIBE, resource=TOPIC, otherwise="TOPIC_AUTHORIZATION_FAILED for a group that uses it"),
        hide_topics_of_members("The group has described topic(s) that the client is not authorized to describe."),
    ),
)

# -- records


def _nothing(request: AnyApi, error: ErrorCode) -> Any:
    return top(request, error, error_message=None, responses=[])


_OF_TOPICS = (Need(operation=READ, resource=TOPIC, otherwise="TOPIC_AUTHORIZATION_FAILED for its partitions"),)
SHARE_FETCH = rule(whole(READ, GROUP, _group, _nothing, _FAILED), also=_OF_TOPICS, note="The handler looks at topics.")
SHARE_ACKNOWLEDGE = rule(
    whole(READ, GROUP, _group, _nothing, _FAILED), also=_OF_TOPICS, note="The handler looks at topics."
)

# -- states, between brokers


def _states_refused(request: AnyApi, error: ErrorCode) -> Any:
    results = [
        {
            "topic_id": topic.topic_id,
            "partitions": [
                {"partition": part.partition, "error_code": error, "error_message": _NO_CLUSTER_ACTION}
                for part in topic.partitions
            ],
        }
        for topic in request.message.topics
    ]
    return made(request, results=results)


STATES = rule(whole(Operation.CLUSTER_ACTION, CLUSTER, refuse=_states_refused))

# -- offsets


def _describe_offsets(access: Access, services: Services, request: AnyApi) -> None:
    """Topics that the client may not describe get an error if the request names them. Otherwise they are left out."""
    named = {group.group_id: group.topics is not None for group in request.message.groups}
    groups = []
    hidden: dict[str, list[Entry]] = {}
    for group in request.message.groups:
        seen, denied = divided(group.topics or (), lambda item: access.may(DESCRIBE, TOPIC, item.topic_name))
        hidden[group.group_id] = list(map(_hidden_topic, denied))
        groups.append(group if group.topics is None else replace(group, topics=seen))
    request.message = replace(request.message, groups=tuple(groups))

    def change(answer: Any) -> Any:
        changed = []
        for group in answer.groups:
            entry = {"group_id": group.group_id, "topics": hidden.get(group.group_id, [])}
            extra: Any = made(request, groups=[entry])
            topics = (*group.topics, *extra.groups[0].topics)
            if not named.get(group.group_id, True):
                topics = tuple(item for item in topics if access.could(DESCRIBE, TOPIC, item.topic_name))
            changed.append(replace(group, topics=topics))
        return replace(answer, groups=tuple(changed))

    request.amend_answer(change)


def _hidden_topic(item: Item) -> Entry:
    error = ErrorCode.topic_authorization_failed
    return {
        "topic_name": item.topic_name,
        "topic_id": None,
        "partitions": [
            {"partition_index": index, "start_offset": -1, "leader_epoch": 0, "lag": -1, "error_code": error}
            for index in item.partitions
        ],
    }


DESCRIBE_SHARE_GROUP_OFFSETS = rule(
    each(
        DESCRIBE,
        GROUP,
        "groups",
        lambda item, error: {"group_id": item.group_id, "topics": [], "error_code": error, "error_message": None},
        "groups",
        lambda services, item: str(item.group_id),
    ),
    (
        Need(
            operation=DESCRIBE,
            resource=TOPIC,
            otherwise="TOPIC_AUTHORIZATION_FAILED for its partitions; left out if all are asked for",
        ),
        _describe_offsets,
    ),
)


def _altered(item: Item, error: ErrorCode) -> Entry:
    return {
        "topic_name": item.topic_name,
        "topic_id": None,
        "partitions": [
            {"partition_index": part.partition_index, "error_code": error, "error_message": None}
            for part in item.partitions
        ],
    }


def _deleted(item: Item, error: ErrorCode) -> Entry:
    return {"topic_name": item.topic_name, "topic_id": None, "error_code": error}


def _read_topics(refused_as: Callable[[Item, ErrorCode], Entry]) -> tuple[Need, Step]:
    """The coordinator is asked even if all topics are denied. As in Kafka, if the group has an error, the answer
    contains only that."""
    error = ErrorCode.topic_authorization_failed

    def step(access: Access, services: Services, request: AnyApi) -> None:
        kept, denied = divided(request.message.topics, lambda item: access.may(READ, TOPIC, item.topic_name))
        refused = [refused_as(item, error) for item in denied]
        told = made(request, error_code=ErrorCode.none, responses=refused)
        request.message = replace(request.message, topics=kept)

        def change(answer: Any) -> Any:
            is_of_group = answer.error_code is not ErrorCode.none
            return answer if is_of_group else replace(answer, responses=(*answer.responses, *told.responses))

        request.amend_answer(change)

    return Need(operation=READ, resource=TOPIC, otherwise="TOPIC_AUTHORIZATION_FAILED for that one"), step


ALTER_SHARE_GROUP_OFFSETS = rule(whole(READ, GROUP, _group, _nothing, _FAILED), _read_topics(_altered))
DELETE_SHARE_GROUP_OFFSETS = rule(whole(DELETE, GROUP, _group, _nothing, _FAILED), _read_topics(_deleted))
