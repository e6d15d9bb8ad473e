"""Rules of the APIs of streams groups (KIP-1071)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from broker.node.handlers.api_88_streams_group_heartbeat import topics_of, topology_problem
from broker.node.handlers.authorization.rules import AnyApi, Entry, Item, Need, each, made, rule, top, whole
from broker.node.handlers.operations import NOT_ASKED
from broker.node.handlers.services import Services
from broker.security.acls import Operation, ResourceType
from broker.security.authorizer import Access
from broker.wire.errors import ErrorCode

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
READ, DESCRIBE, CREATE = Operation.READ, Operation.DESCRIBE, Operation.CREATE


def _refused(request: AnyApi, error: ErrorCode) -> Any:
    return top(
        request,
        error,
        error_message=None,
        member_id="",
        member_epoch=0,
        heartbeat_interval=0,
        status=[],
        active_tasks=None,
        standby_tasks=None,
        warmup_tasks=None,
        endpoint_information_epoch=0,
        partitions_by_user_endpoint=None,
    )


def _may_describe_topology(access: Access, services: Services, request: AnyApi) -> Any | None:
    """An invalid topology is invalid for any client: then the handler answers."""
    topology = request.message.topology
    if topology is None or topology_problem(request.message) is not None:
        return None
    if all(access.may(DESCRIBE, TOPIC, name) for name in topics_of(topology)):
        return None
    return _refused(request, ErrorCode.topic_authorization_failed)


_CANNOT_CREATE = "the status of the answer says that internal topics are missing"
STREAMS_GROUP_HEARTBEAT = rule(
    whole(READ, GROUP, lambda message: str(message.group_id), _refused, "GROUP_AUTHORIZATION_FAILED"),
    (Need(operation=DESCRIBE, resource=TOPIC, otherwise="TOPIC_AUTHORIZATION_FAILED"), _may_describe_topology),
    also=(
        Need(operation=CREATE, resource=CLUSTER, otherwise="the rights to each internal topic are checked"),
        Need(operation=CREATE, resource=TOPIC, otherwise=_CANNOT_CREATE),
    ),
    note="The handler looks at internal topics.",
)


def _described(item: Item, error: ErrorCode, text: str | None = None) -> Entry:
    return {
        "error_code": error,
        "error_message": text,
        "group_id": item,
        "group_state": "",
        "group_epoch": 0,
        "assignment_epoch": 0,
        "topology": None,
        "members": [],
        "authorized_operations": NOT_ASKED,
    }


def _hide_topology(access: Access, services: Services, request: AnyApi) -> None:
    """If a group uses a topic that the client may not describe, the whole group gets an error, as in Kafka."""
    text = "The described group uses topics that the client is not authorized to describe."

    def change(answer: Any) -> Any:
        groups = []
        for group in answer.groups:
            if group.topology is None or all(access.may(DESCRIBE, TOPIC, name) for name in topics_of(group.topology)):
                groups.append(group)
                continue
            entry = _described(group.group_id, ErrorCode.topic_authorization_failed, text)
            refused: Any = made(request, groups=[entry])
            groups += refused.groups
        return replace(answer, groups=tuple(groups))

    request.amend_answer(change)


STREAMS_GROUP_DESCRIBE = rule(
    each(DESCRIBE, GROUP, "group_ids", _described, "groups", lambda services, item: str(item)),
    (
        Need(operation=DESCRIBE, resource=TOPIC, otherwise="TOPIC_AUTHORIZATION_FAILED for a group that uses it"),
        _hide_topology,
    ),
)
