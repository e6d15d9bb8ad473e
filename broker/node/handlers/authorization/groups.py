"""Rules of the APIs of groups: for members, and for clients that describe or delete groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from broker.node.handlers.authorization.rules import (
    AnyApi,
    Entry,
    Item,
    Need,
    Rule,
    divided,
    each,
    hiding,
    made,
    rule,
    top,
    whole,
)
from broker.node.handlers.operations import NOT_ASKED
from broker.node.handlers.services import Services
from broker.security.acls import Operation, ResourceType
from broker.security.authorizer import Access
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
READ, DESCRIBE = Operation.READ, Operation.DESCRIBE


def _group(message: Any) -> str:
    return str(message.group_id)


def _join_refused(request: AnyApi, error: ErrorCode) -> Any:
    name = None if request.version >= 7 else ""
    return top(request, error, generation_id=-1, protocol_name=name, leader="", member_id="", members=[])


def _empty(**values: object) -> Any:
    return lambda request, error: top(request, error, **values)


_FAILED = "GROUP_AUTHORIZATION_FAILED"
JOIN_GROUP = rule(whole(READ, GROUP, _group, _join_refused, _FAILED))


def _synced_group(message: Any) -> str | None:
    """The group to check. Without the fields that version 5 requires, the request is invalid for any client: then None,
    and the handler answers."""
    is_complete = None not in (field_or(message, "protocol_type", ""), field_or(message, "protocol_name", ""))
    return _group(message) if is_complete else None


SYNC_GROUP = rule(whole(READ, GROUP, _synced_group, _empty(assignment=b""), _FAILED))
HEARTBEAT = rule(whole(READ, GROUP, _group))
LEAVE_GROUP = rule(whole(READ, GROUP, _group, _empty(members=[]), _FAILED))

# -- committed offsets


def _absent_offsets(topic: Item, error: ErrorCode) -> Entry:
    about = {"name": topic.name} if hasattr(topic, "name") else {"topic_id": topic.topic_id}
    return {
        **about,
        "partitions": [
            {
                "partition_index": index,
                "committed_offset": -1,
                "committed_leader_epoch": -1,
                "metadata": "",
                "error_code": error,
            }
            for index in topic.partition_indexes
        ],
    }


def _offset_fetch(access: Access, services: Services, request: AnyApi) -> Any | None:
    return (_one_group if request.version < 8 else _several_groups)(access, services, request)


def _one_group(access: Access, services: Services, request: AnyApi) -> Any | None:
    message = request.message
    error = ErrorCode.group_authorization_failed
    if not access.may(DESCRIBE, GROUP, message.group_id):
        if request.version >= 2:
            return made(request, error_code=error, topics=[])
        refused = [_absent_offsets(topic, error) for topic in message.topics or ()]
        return made(request, topics=refused)
    seen, hidden = divided(message.topics or (), lambda topic: access.may(DESCRIBE, TOPIC, topic.name))
    told = [_absent_offsets(topic, ErrorCode.topic_authorization_failed) for topic in hidden]
    extra: Any = made(request, topics=told)
    if message.topics is not None:
        request.message = replace(message, topics=seen)

    def change(answer: Any) -> Any:
        if field_or(answer, "error_code", ErrorCode.none) is not ErrorCode.none:
            return answer
        seen = tuple(each for each in answer.topics if access.could(DESCRIBE, TOPIC, each.name))
        return replace(answer, topics=(*seen, *extra.topics))

    request.amend_answer(change)
    return None


def _several_groups(access: Access, services: Services, request: AnyApi) -> Any | None:
    names = services.metadata.image.topic_names
    kept, refused = [], []
    hidden: dict[str, list[Entry]] = {}  # entries of hidden topics, by group
    for group in request.message.groups:
        if not access.may(DESCRIBE, GROUP, group.group_id):
            refused.append(
                {"group_id": group.group_id, "topics": [], "error_code": ErrorCode.group_authorization_failed}
            )
            continue
        seen, denied = divided(group.topics or (), lambda topic: _is_seen(access, topic, names))
        if denied:
            error = ErrorCode.topic_authorization_failed
            hidden[group.group_id] = [_absent_offsets(topic, error) for topic in denied]
            group = replace(group, topics=seen)
        kept.append(group)
    told: Any = made(request, groups=refused)
    if refused and not kept:
        return told
    request.message = replace(request.message, groups=tuple(kept))
    request.amend_answer(lambda answer: _with_groups(access, request, answer, told.groups, hidden, names))
    return None


def _is_seen(access: Access, topic: Item, names: Mapping[UUID | None, str]) -> bool:
    """Whether the client may describe the topic. For an id that no topic has, the handler answers."""
    name = topic.name if hasattr(topic, "name") else names.get(topic.topic_id)
    return name is None or access.may(DESCRIBE, TOPIC, name)


def _with_groups(
    access: Access,
    request: AnyApi,
    answer: Any,
    refused: tuple[Any, ...],
    hidden: Mapping[str, list[Entry]],
    names: Mapping[UUID | None, str],
) -> Any:
    groups = []
    for group in answer.groups:
        topics = tuple(each for each in group.topics if _is_seen(access, each, names))
        if group.group_id in hidden and group.error_code is ErrorCode.none:
            entry = {"group_id": group.group_id, "topics": hidden[group.group_id], "error_code": ErrorCode.none}
            extra: Any = made(request, groups=[entry])
            topics = (*topics, *extra.groups[0].topics)
        groups.append(replace(group, topics=topics))
    return replace(answer, groups=(*groups, *refused))


OFFSET_FETCH = Rule(
    needs=(
        Need(operation=DESCRIBE, resource=GROUP, otherwise="GROUP_AUTHORIZATION_FAILED for that group"),
        Need(
            operation=DESCRIBE,
            resource=TOPIC,
            otherwise="TOPIC_AUTHORIZATION_FAILED for its partitions; left out if all are asked for",
        ),
    ),
    steps=(_offset_fetch,),
)

# -- descriptions


def _described(item: Item, error: ErrorCode) -> Entry:
    return {
        "error_code": error,
        "error_message": None,
        "group_id": item,
        "group_state": "",
        "protocol_type": "",
        "protocol_data": "",
        "members": [],
        "authorized_operations": NOT_ASKED,
    }


def described_group(item: Item, error: ErrorCode, text: str | None = None) -> Entry:
    return {
        "error_code": error,
        "error_message": text,
        "group_id": item,
        "group_state": "",
        "group_epoch": 0,
        "assignment_epoch": 0,
        "assignor_name": "",
        "members": [],
        "authorized_operations": NOT_ASKED,
    }


_itself = lambda services, item: str(item)  # noqa: E731  # the item is itself the name of the group
DESCRIBE_GROUPS = rule(each(DESCRIBE, GROUP, "groups", _described, "groups", _itself))


def _list_groups(access: Access, services: Services, request: AnyApi) -> None:
    if not access.could_on_cluster(DESCRIBE):
        _listed[1](access, services, request)


_listed = hiding(DESCRIBE, GROUP, "groups", lambda item: str(item.group_id), "the group is left out")
LIST_GROUPS = Rule(
    needs=(Need(operation=DESCRIBE, resource=CLUSTER, otherwise="the rights to each group are checked"), _listed[0]),
    steps=(_list_groups,),
)


def _delete_groups(access: Access, services: Services, request: AnyApi) -> Any | None:
    """As in Kafka, a group that is named twice is deleted once."""
    request.message = replace(request.message, groups_names=tuple(dict.fromkeys(request.message.groups_names)))
    return _deleted[1](access, services, request)


_deleted = each(
    Operation.DELETE,
    GROUP,
    "groups_names",
    lambda item, error: {"group_id": item, "error_code": error},
    "results",
    _itself,
)
DELETE_GROUPS = Rule(needs=(_deleted[0],), steps=(_delete_groups,))


def hide_topics_of_members(text: str) -> Callable[[Access, Services, AnyApi], None]:
    """If members of a group use a topic that the client may not describe, the whole group gets an error with this text,
    as in Kafka."""

    def hide(access: Access, services: Services, request: AnyApi) -> None:
        def change(answer: Any) -> Any:
            groups = []
            for group in answer.groups:
                if all(access.may(DESCRIBE, TOPIC, name) for name in _topics_of(group)):
                    groups.append(group)
                    continue
                entry = described_group(group.group_id, ErrorCode.topic_authorization_failed, text)
                refused: Any = made(request, groups=[entry])
                groups += refused.groups
            return replace(answer, groups=tuple(groups))

        request.amend_answer(change)

    return hide


def _topics_of(group: Item) -> set[str]:
    """The topics of a group's members. Members of a share group have no target assignment."""
    return {
        name
        for member in group.members
        for name in (
            *member.subscribed_topic_names,
            *(each.topic_name for each in member.assignment.topic_partitions),
            *(each.topic_name for each in getattr(member, "target_assignment", member.assignment).topic_partitions),
        )
    }


CONSUMER_GROUP_DESCRIBE = rule(
    each(DESCRIBE, GROUP, "group_ids", described_group, "groups", _itself),
    (
        Need(operation=DESCRIBE, resource=TOPIC, otherwise="TOPIC_AUTHORIZATION_FAILED for a group that uses it"),
        hide_topics_of_members("The described group uses topics that the client is not authorized to describe."),
    ),
)


def may_describe_subscribed(access: Access, services: Services, request: AnyApi) -> Any | None:
    names = request.message.subscribed_topic_names or ()
    if all(access.may(DESCRIBE, TOPIC, name) for name in names):
        return None
    return heartbeat_refused(request, ErrorCode.topic_authorization_failed)


def heartbeat_refused(request: AnyApi, error: ErrorCode) -> Any:
    return top(
        request, error, error_message=None, member_id=None, member_epoch=0, heartbeat_interval=0, assignment=None
    )


CONSUMER_GROUP_HEARTBEAT = rule(
    whole(READ, GROUP, _group, heartbeat_refused, _FAILED),
    (
        Need(
            operation=DESCRIBE,
            resource=TOPIC,
            otherwise="TOPIC_AUTHORIZATION_FAILED; a pattern finds what its last asker may describe",
        ),
        may_describe_subscribed,
    ),
)
LIST_TRANSACTIONS = rule(
    hiding(
        DESCRIBE,
        ResourceType.TRANSACTIONAL_ID,
        "transaction_states",
        lambda item: str(item.transactional_id),
        "the transaction is left out",
    )
)
