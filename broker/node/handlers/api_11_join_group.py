"""JoinGroup (key 11), versions 0-9: the answer waits until all members have joined (KIP-62, 345, 394, 814)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinator.groups.events import JoinGroup, JoinResult
from broker.node.coordination.groups import are_too_long
from broker.node.handlers.services import Services
from broker.node.net.requests import Request, guarded
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response, to_ms

if TYPE_CHECKING:
    from broker.wire.shapes import join_group as shapes

NULL_PROTOCOL_SINCE_VERSION = 7
MEMBER_ID_REQUIRED_SINCE_VERSION = 4
SKIP_ASSIGNMENT_SINCE_VERSION = 9


def handle(services: Services, request: Request[shapes.JoinGroupRequest]) -> None:
    message, version = request.message, request.version
    instance_id = field_or(message, "group_instance_id", None)
    session_timeout_ms = to_ms(message.session_timeout)
    rebalance_timeout_ms = to_ms(field_or(message, "rebalance_timeout", -1))
    protocols = tuple((each.name, bytes(each.metadata)) for each in message.protocols)

    def refused(error: ErrorCode) -> None:
        done(JoinResult(error_code=error, member_id=message.member_id))

    def done(result: JoinResult) -> None:
        request.respond(
            response(
                ApiKey.JOIN_GROUP,
                version,
                error_code=result.error_code,
                generation_id=result.generation,
                protocol_type=result.protocol_type,
                protocol_name=result.protocol if version >= NULL_PROTOCOL_SINCE_VERSION else result.protocol or "",
                leader=result.leader,
                skip_assignment=result.skip_assignment,
                member_id=result.member_id,
                members=[
                    {"member_id": member_id, "group_instance_id": instance, "metadata": metadata}
                    for member_id, instance, metadata in result.members
                ],
            )
        )

    if not message.group_id:
        refused(ErrorCode.invalid_group_id)
        return
    if are_too_long(instance_id, message.protocol_type, request.client_id, *(name for name, _ in protocols)):
        refused(ErrorCode.invalid_request)
        return

    def event(token: int) -> JoinGroup:
        return JoinGroup(
            token=token,
            group_id=message.group_id,
            member_id=message.member_id,
            instance_id=instance_id,
            client_id=request.client_id,
            client_host=request.peer_host,
            protocol_type=message.protocol_type,
            protocols=protocols,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms if rebalance_timeout_ms >= 0 else session_timeout_ms,
            needs_known_member_id=version >= MEMBER_ID_REQUIRED_SINCE_VERSION,
            can_skip_assignment=version >= SKIP_ASSIGNMENT_SINCE_VERSION,
        )

    services.groups.ask(
        message.group_id, event, JoinResult, done=guarded(request, done), refused=guarded(request, refused)
    )
