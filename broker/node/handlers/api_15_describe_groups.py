"""DescribeGroups (key 15), versions 0-6: describes classic groups. For any other group the state is Dead, since version
6 with GROUP_ID_NOT_FOUND."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinator.groups.events import DescribeClassicGroup, DescribedGroup
from broker.node.handlers import operations
from broker.node.handlers.gather import Gather
from broker.node.handlers.services import Services
from broker.node.net.requests import Request, guarded
from broker.security.acls import ResourceType
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response

if TYPE_CHECKING:
    from broker.wire.shapes import describe_groups as shapes

NOT_FOUND_SINCE_VERSION = 6


def handle(services: Services, request: Request[shapes.DescribeGroupsRequest]) -> None:
    group_ids = request.message.groups

    def done(groups: list[shapes.DescribedGroupFields]) -> None:
        request.respond(response(ApiKey.DESCRIBE_GROUPS, request.version, groups=groups))

    gather: Gather[shapes.DescribedGroupFields] = Gather(len(group_ids), done)
    for position, group_id in enumerate(group_ids):
        _ask(services, request, group_id, gather, position)


def _ask(
    services: Services,
    request: Request[shapes.DescribeGroupsRequest],
    group_id: str,
    gather: Gather[shapes.DescribedGroupFields],
    position: int,
) -> None:
    put = gather.slot(position)

    def done(found: DescribedGroup) -> None:
        put(_group(request, group_id, found))

    def refused(error: ErrorCode) -> None:
        put({**_group(request, group_id, DescribedGroup(state="")), "error_code": error, "error_message": None})

    def event(token: int) -> DescribeClassicGroup:
        return DescribeClassicGroup(token=token, group_id=group_id)

    services.groups.ask(group_id, event, DescribedGroup, done=guarded(request, done), refused=guarded(request, refused))


def _group(
    request: Request[shapes.DescribeGroupsRequest], group_id: str, found: DescribedGroup
) -> shapes.DescribedGroupFields:
    is_missing = found.state == "Dead" and request.version >= NOT_FOUND_SINCE_VERSION
    members: list[shapes.DescribedGroupMemberFields] = [
        {
            "member_id": member.member_id,
            "group_instance_id": member.instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "member_metadata": member.metadata,
            "member_assignment": member.assignment,
        }
        for member in found.members
    ]
    return {
        "error_code": ErrorCode.group_id_not_found if is_missing else ErrorCode.none,
        "error_message": f"Group {group_id} {_absence(found)}" if is_missing else None,
        "group_id": group_id,
        "group_state": found.state,
        "protocol_type": found.protocol_type,
        "protocol_data": found.protocol,
        "members": members,
        "authorized_operations": operations.NOT_ASKED
        if is_missing
        else operations.asked(
            field_or(request.message, "include_authorized_operations", False),
            request.access,
            ResourceType.GROUP,
            group_id,
        ),
    }


def _absence(found: DescribedGroup) -> str:
    return "is not a classic group." if found.is_other_kind else "not found."
