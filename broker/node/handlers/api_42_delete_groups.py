"""DeleteGroups (key 42), versions 0-2: deletes groups without members, with their offsets, and share groups with their
states."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.coordinator.groups.events import DeleteGroup, StatesToDelete
from broker.node.handlers.gather import Gather
from broker.node.handlers.services import Services
from broker.node.net.requests import Request, guarded
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import delete_groups as shapes


def handle(services: Services, request: Request[shapes.DeleteGroupsRequest]) -> None:
    group_ids = tuple(dict.fromkeys(request.message.groups_names))

    def done(errors: list[ErrorCode]) -> None:
        results: list[shapes.DeletableGroupResultFields] = [
            {"group_id": group_id, "error_code": error} for group_id, error in zip(group_ids, errors, strict=True)
        ]
        request.respond(response(ApiKey.DELETE_GROUPS, request.version, results=results))

    gather: Gather[ErrorCode] = Gather(len(group_ids), done)
    for position, group_id in enumerate(group_ids):
        _delete(services, request, group_id, gather.slot(position))


def _delete(
    services: Services,
    request: Request[shapes.DeleteGroupsRequest],
    group_id: str,
    put: Callable[[ErrorCode], None],
    *,
    are_states_deleted: bool = False,
) -> None:
    def done(found: object) -> None:
        if isinstance(found, StatesToDelete):
            services.serve(request, _delete_states(services, request, group_id, put, found))
        else:
            assert isinstance(found, ErrorCode)
            put(found)

    def event(token: int) -> DeleteGroup:
        return DeleteGroup(token=token, group_id=group_id, are_states_deleted=are_states_deleted)

    services.groups.ask(group_id, event, object, done=guarded(request, done), refused=guarded(request, put))


async def _delete_states(
    services: Services,
    request: Request[shapes.DeleteGroupsRequest],
    group_id: str,
    put: Callable[[ErrorCode], None],
    found: StatesToDelete,
) -> None:
    """Deletes what the group keeps elsewhere, and then the group itself."""
    error = await services.groups.kinds[found.group_type].delete_states(group_id, found.partitions)
    if error is ErrorCode.none:
        _delete(services, request, group_id, put, are_states_deleted=True)
    else:
        put(error)
