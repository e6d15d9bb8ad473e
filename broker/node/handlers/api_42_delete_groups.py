"""DeleteGroups (key 42), versions 0-2: groups without members, with their offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.coordinator.groups.events import DeleteGroup
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
        put = gather.slot(position)
        services.groups.ask(
            group_id, _event(group_id), ErrorCode, done=guarded(request, put), refused=guarded(request, put)
        )


def _event(group_id: str) -> Callable[[int], DeleteGroup]:
    return lambda token: DeleteGroup(token=token, group_id=group_id)
