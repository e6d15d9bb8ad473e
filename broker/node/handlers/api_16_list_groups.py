"""ListGroups (key 16), versions 0-5: the groups that this broker coordinates, filtered by state (4) and type (5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker.coordinator.groups.events import ListedGroup, ListGroups
from broker.node.handlers.gather import Gather
from broker.node.handlers.services import Services
from broker.node.net.requests import Request, guarded
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response

if TYPE_CHECKING:
    from broker.wire.shapes import list_groups as shapes


def handle(services: Services, request: Request[shapes.ListGroupsRequest]) -> None:
    host = services.groups.host
    states = {each.lower() for each in field_or(request.message, "states_filter", ())}
    types = {each.lower() for each in field_or(request.message, "types_filter", ())}
    if host.is_loading():  # an incomplete list would look like a complete one
        loading = ErrorCode.coordinator_load_in_progress
        request.respond(response(ApiKey.LIST_GROUPS, request.version, error_code=loading, groups=[]))
        return

    def done(parts: list[tuple[ListedGroup, ...] | ErrorCode]) -> None:
        error = next((part for part in parts if isinstance(part, ErrorCode)), ErrorCode.none)
        groups = [group for part in parts if not isinstance(part, ErrorCode) for group in part]
        chosen: list[shapes.ListedGroupFields] = [
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type,
                "group_state": group.state,
                "group_type": group.group_type,
            }
            for group in groups
            if (not states or group.state.lower() in states) and (not types or group.group_type in types)
        ]
        answer = response(ApiKey.LIST_GROUPS, request.version, error_code=error, groups=[] if error.value else chosen)
        request.respond(answer)

    indexes = [index for index, _ in host.active_shards()]
    gather: Gather[tuple[ListedGroup, ...] | ErrorCode] = Gather(len(indexes), done)
    for position, index in enumerate(indexes):
        put = gather.slot(position)
        told: Callable[[Any], None] = guarded(request, put)  # takes the groups or an error
        host.call_partition(index, lambda token: ListGroups(token=token), done=told, refused=told)
