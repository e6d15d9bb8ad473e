"""SyncGroup (key 14), versions 0-5: the answer waits for the assignments of the group's leader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinator.groups.events import SyncGroup, SyncResult
from broker.node.handlers.services import Services
from broker.node.net.requests import Request, guarded
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response

if TYPE_CHECKING:
    from broker.wire.shapes import sync_group as shapes

PROTOCOL_SINCE_VERSION = 5


def handle(services: Services, request: Request[shapes.SyncGroupRequest]) -> None:
    message = request.message

    def done(result: SyncResult) -> None:
        request.respond(
            response(
                ApiKey.SYNC_GROUP,
                request.version,
                error_code=result.error_code,
                protocol_type=result.protocol_type,
                protocol_name=result.protocol,
                assignment=result.assignment,
            )
        )

    def refused(error: ErrorCode) -> None:
        done(SyncResult(error_code=error))

    protocol_type, protocol = field_or(message, "protocol_type", None), field_or(message, "protocol_name", None)
    if request.version >= PROTOCOL_SINCE_VERSION and (protocol_type is None or protocol is None):
        refused(ErrorCode.inconsistent_group_protocol)  # both fields are mandatory since KIP-559
        return
    if not message.group_id:
        refused(ErrorCode.invalid_group_id)
        return

    def event(token: int) -> SyncGroup:
        return SyncGroup(
            token=token,
            group_id=message.group_id,
            member_id=message.member_id,
            instance_id=field_or(message, "group_instance_id", None),
            generation=message.generation_id,
            protocol_type=protocol_type,
            protocol=protocol,
            assignments={each.member_id: bytes(each.assignment) for each in message.assignments},
        )

    services.groups.ask(
        message.group_id, event, SyncResult, done=guarded(request, done), refused=guarded(request, refused)
    )
