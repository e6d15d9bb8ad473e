"""Heartbeat (key 12), versions 0-4: a member of a classic group is alive. REBALANCE_IN_PROGRESS tells it to join
again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinator.groups.events import Heartbeat
from broker.node.handlers.services import Services
from broker.node.net.requests import Request, guarded
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response

if TYPE_CHECKING:
    from broker.wire.shapes import heartbeat as shapes


def handle(services: Services, request: Request[shapes.HeartbeatRequest]) -> None:
    message = request.message

    def done(error: ErrorCode) -> None:
        request.respond(response(ApiKey.HEARTBEAT, request.version, error_code=error))

    def event(token: int) -> Heartbeat:
        return Heartbeat(
            token=token,
            group_id=message.group_id,
            member_id=message.member_id,
            instance_id=field_or(message, "group_instance_id", None),
            generation=message.generation_id,
        )

    if message.group_id:
        services.groups.ask(
            message.group_id, event, ErrorCode, done=guarded(request, done), refused=guarded(request, done)
        )
    else:
        done(ErrorCode.invalid_group_id)
