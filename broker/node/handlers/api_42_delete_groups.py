"""DeleteGroups (key 42), versions 0-2: groups without members, with their offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.coordinator.groups.events import DeleteGroup
from broker.node.control import guarded
from broker.node.handlers.gather import Gather
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.node.broker import Broker
    from broker.node.connection import Request


def handle(broker: Broker, request: Request) -> None:
    group_ids = tuple(dict.fromkeys(request.message.groups_names))

    def done(errors: list[ErrorCode]) -> None:
        results = [
            {"group_id": group_id, "error_code": error} for group_id, error in zip(group_ids, errors, strict=True)
        ]
        request.respond(response(ApiKey.DELETE_GROUPS, request.version, results=results))

    gather: Gather[ErrorCode] = Gather(len(group_ids), done)
    for position, group_id in enumerate(group_ids):
        put = gather.slot(position)
        broker.groups.ask(
            group_id, _event(group_id), ErrorCode, done=guarded(request, put), refused=guarded(request, put)
        )


def _event(group_id: str) -> Callable[[int], DeleteGroup]:
    return lambda token: DeleteGroup(token=token, group_id=group_id)
