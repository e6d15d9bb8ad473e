"""The common part of ConsumerGroupDescribe and ShareGroupDescribe.

For each group, it asks the group's coordinator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from broker.coordinator.groups.events import GroupOfOtherKind
from broker.node.handlers import operations
from broker.node.handlers.gather import Gather
from broker.node.handlers.services import Services
from broker.node.net.requests import Request, guarded
from broker.security.acls import ResourceType
from broker.wire.errors import ErrorCode

Described = TypeVar("Described")
Fields = TypeVar("Fields")  # the fields of one group in the answer


def describe_groups(
    services: Services,
    request: Request[Any],  # Any: a request of one of the two APIs
    kind: type[Described],
    *,
    is_on: bool,
    event: Callable[[int, str], object],
    told: Callable[[str, Described, int], Fields],
    failed: Callable[[str, ErrorCode, str | None], Fields],
    noun: str,
    done: Callable[[list[Fields]], None],
) -> None:
    """`done` is called once, with the groups in the order of the request.

    `event(token, group id)` makes the question. `told(group id, the coordinator's answer, authorized operations)` makes
    the entry of the answer. `noun` is the kind of group in messages.
    """
    group_ids: tuple[str, ...] = request.message.group_ids
    gather: Gather[Fields] = Gather(len(group_ids), done)

    def ask(group_id: str, put: Callable[[Fields], None]) -> None:
        are_asked = request.message.include_authorized_operations
        allowed = operations.asked(are_asked, request.access, ResourceType.GROUP, group_id)

        def answered(found: object) -> None:
            if isinstance(found, kind):
                put(told(group_id, found, allowed))
            else:
                is_other = isinstance(found, GroupOfOtherKind)
                text = f"Group {group_id} is not a {noun} group." if is_other else f"Group {group_id} not found."
                put(failed(group_id, ErrorCode.group_id_not_found, text))

        def refused(error: ErrorCode) -> None:
            put(failed(group_id, error, None))

        if not is_on:
            refused(ErrorCode.unsupported_version)
        elif not group_id:
            refused(ErrorCode.invalid_group_id)
        else:
            services.groups.ask(
                group_id,
                lambda token: event(token, group_id),
                object,
                done=guarded(request, answered),
                refused=guarded(request, refused),
            )

    for position, group_id in enumerate(group_ids):
        ask(group_id, gather.slot(position))
