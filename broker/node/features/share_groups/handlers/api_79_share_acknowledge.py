"""ShareAcknowledge (key 79), versions 1-2: records are accepted, released or rejected without a fetch (KIP-932).

Version 2 also renews the locks of records (KIP-1222). With session epoch -1 the session ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from broker.node.features.share_groups.delivery.sessions import FINAL_EPOCH, FIRST_EPOCH
from broker.node.features.share_groups.handlers.acks import (
    NO_LEADER,
    RENEW_SINCE_VERSION,
    Acknowledged,
    acknowledge,
    endpoints_of,
    leader_of,
)
from broker.node.features.share_groups.handlers.acks import refusal as refused
from broker.node.features.share_groups.part import SharePart
from broker.node.features.share_groups.persister import Place
from broker.node.handlers.services import Services
from broker.node.net.requests import Request
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response

if TYPE_CHECKING:
    from broker.wire.shapes import share_acknowledge as shapes


def handle(services: Services, request: Request[shapes.ShareAcknowledgeRequest]) -> None:
    message = request.message
    problem = refused(services, request)
    if problem is not None:
        _fail(request, *problem)
        return
    if message.share_session_epoch == FIRST_EPOCH:
        _fail(request, ErrorCode.invalid_share_session_epoch, None)
        return
    assert message.group_id is not None
    assert message.member_id is not None
    services.part(SharePart).shares.end_if_lost(message.group_id, message.member_id)
    session = services.part(SharePart).shares.sessions.resume(
        message.group_id, message.member_id, message.share_session_epoch, request.connection_check()
    )
    if isinstance(session, ErrorCode):
        _fail(request, session, None)
        return

    def done(results: dict[Place, Acknowledged]) -> None:
        if message.share_session_epoch == FINAL_EPOCH:
            services.part(SharePart).shares.end_session(session, lambda errors: _respond(services, request, results))
        else:
            _respond(services, request, results)

    asked = (
        (topic.topic_id, partition.partition_index, partition.acknowledgement_batches)
        for topic in message.topics
        for partition in topic.partitions
    )
    is_renewing = request.version >= RENEW_SINCE_VERSION and field_or(message, "is_renew_ack", False)
    acknowledge(services, request, asked, is_renewing=is_renewing, done=done)


def _fail(request: Request[shapes.ShareAcknowledgeRequest], error: ErrorCode, text: str | None) -> None:
    request.respond(
        response(ApiKey.SHARE_ACKNOWLEDGE, request.version, error_code=error, error_message=text, responses=[])
    )


def _respond(
    services: Services, request: Request[shapes.ShareAcknowledgeRequest], results: dict[Place, Acknowledged]
) -> None:
    topics: dict[UUID, list[shapes.PartitionDataFields]] = {}
    leaders = []
    for place, result in results.items():
        leader = leader_of(services, place, result.error_code)
        leaders.append(leader)
        topics.setdefault(place[0], []).append(
            {
                "partition_index": place[1],
                "error_code": result.error_code,
                "error_message": result.message,
                "current_leader": {**(leader or NO_LEADER)},
            }
        )
    settings = services.part(SharePart).shares.settings(str(request.message.group_id))
    request.respond(
        response(
            ApiKey.SHARE_ACKNOWLEDGE,
            request.version,
            error_code=ErrorCode.none,
            acquisition_lock_timeout=settings.limits.lock_duration_ms,
            responses=[{"topic_id": topic_id, "partitions": parts} for topic_id, parts in topics.items()],
            node_endpoints=endpoints_of(services, request, leaders),
        )
    )
