"""LeaveGroup (key 13), versions 0-5: one member leaves, or since version 3 several members, also by instance id alone
(KIP-345)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinator.groups.events import LeaveGroup, LeaveResult
from broker.node.handlers.services import Services
from broker.node.net.requests import Request, guarded
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import leave_group as shapes

MEMBERS_SINCE_VERSION = 3


def handle(services: Services, request: Request[shapes.LeaveGroupRequest]) -> None:
    message = request.message
    if request.version >= MEMBERS_SINCE_VERSION:
        members = tuple((each.member_id, each.group_instance_id) for each in message.members)
    else:
        members = ((message.member_id, None),)

    def done(result: LeaveResult) -> None:
        error = result.error_code
        if request.version < MEMBERS_SINCE_VERSION and error is ErrorCode.none:
            error = result.members[0][2]
        answers: list[shapes.MemberResponseFields] = [
            {"member_id": member_id, "group_instance_id": instance_id, "error_code": code}
            for member_id, instance_id, code in result.members
        ]
        request.respond(response(ApiKey.LEAVE_GROUP, request.version, error_code=error, members=answers))

    def refused(error: ErrorCode) -> None:
        done(LeaveResult(error_code=error, members=()))

    if not message.group_id:
        refused(ErrorCode.invalid_group_id)
        return

    def event(token: int) -> LeaveGroup:
        return LeaveGroup(token=token, group_id=message.group_id, members=members)

    services.groups.ask(
        message.group_id, event, LeaveResult, done=guarded(request, done), refused=guarded(request, refused)
    )
