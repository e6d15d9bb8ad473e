"""Heartbeat (key 12), versions 0-4: a member of a classic group lives; REBALANCE_IN_PROGRESS tells it to join again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinator.groups.events import Heartbeat
from broker.node.control import guarded
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.node.broker import Broker
    from broker.node.connection import Request


def handle(broker: Broker, request: Request) -> None:
    message = request.message

    def done(error: ErrorCode) -> None:
        request.respond(response(ApiKey.HEARTBEAT, request.version, error_code=error))

    def event(token: int) -> Heartbeat:
        return Heartbeat(
            token=token,
            group_id=message.group_id,
            member_id=message.member_id,
            instance_id=getattr(message, "group_instance_id", None),
            generation=message.generation_id,
        )

    if message.group_id:
        broker.groups.ask(
            message.group_id, event, ErrorCode, done=guarded(request, done), refused=guarded(request, done)
        )
    else:
        done(ErrorCode.invalid_group_id)
