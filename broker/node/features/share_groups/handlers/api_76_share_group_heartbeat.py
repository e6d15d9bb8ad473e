"""ShareGroupHeartbeat (key 76), version 1: a member of a share group joins, shows that it is alive, and leaves
(KIP-932).

Before new partitions are assigned, the share coordinators initialize a state for each. The answer waits for that and
contains the assignment already; in Apache Kafka the next heartbeat brings it. If a state cannot be initialized, the
member gets no error: its next heartbeat tries again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.node.coordination.groups import are_too_long
from broker.node.features.share_groups.groups.events import ShareHeartbeat, ShareHeartbeatResult, SharesInitialized
from broker.node.features.share_groups.part import SharePart
from broker.node.handlers.services import Services
from broker.node.net.requests import Request, guarded
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import share_group_heartbeat as shapes

JOIN, LEAVE = 0, -1
MEMBER_ID_CHARACTERS_MAX = 36  # as in Kafka


def handle(services: Services, request: Request[shapes.ShareGroupHeartbeatRequest]) -> None:
    message = request.message
    if not services.part(SharePart).is_on:
        _respond(services, request, ShareHeartbeatResult(error_code=ErrorCode.unsupported_version))
        return
    problem = _problem(message, request.client_id)
    if problem is not None:
        _respond(services, request, ShareHeartbeatResult(error_code=ErrorCode.invalid_request, error_message=problem))
        return
    _beat(services, request, message.member_epoch, is_first=True)


def _beat(
    services: Services, request: Request[shapes.ShareGroupHeartbeatRequest], epoch: int, *, is_first: bool
) -> None:
    message = request.message

    def done(result: ShareHeartbeatResult) -> None:
        if result.to_initialize and is_first:
            services.serve(request, _initialize(services, request, result))
        else:
            _respond(services, request, result)

    def refused(error: ErrorCode) -> None:
        _respond(services, request, ShareHeartbeatResult(error_code=error))

    def event(token: int) -> ShareHeartbeat:
        return ShareHeartbeat(
            token=token,
            group_id=message.group_id,
            member_id=message.member_id,
            member_epoch=epoch,
            rack_id=message.rack_id,
            subscribed_topic_names=message.subscribed_topic_names,
            client_id=request.client_id,
            client_host=request.peer_host,
        )

    services.groups.ask(
        message.group_id, event, ShareHeartbeatResult, done=guarded(request, done), refused=guarded(request, refused)
    )


async def _initialize(
    services: Services, request: Request[shapes.ShareGroupHeartbeatRequest], result: ShareHeartbeatResult
) -> None:
    """Lets the share coordinators initialize the states, tells the group, and repeats the heartbeat of this member."""
    group_id, member_epoch = request.message.group_id, result.member_epoch
    persister = services.part(SharePart).shares.persister
    states = await persister.initialize(group_id, result.state_epoch, result.to_initialize)
    failed = {place: each for place, each in states.items() if each.error_code is not ErrorCode.none}
    if failed:
        places = [f"{topic_id}-{index}" for topic_id, index in failed]
        causes = sorted({each.error_code.name for each in failed.values()})
        services.logger.warning("share_states_not_made", group=repr(str(group_id)), places=places, causes=causes)
    partitions = {topic_id: frozenset(offsets) for topic_id, offsets in result.to_initialize.items()}

    def told(error: ErrorCode) -> None:
        if error is not ErrorCode.none:
            _respond(services, request, ShareHeartbeatResult(error_code=error))
        else:
            # This is done even if states could not be initialized: an error would end the client, and perhaps only the
            # topic was deleted meanwhile.
            _beat(services, request, member_epoch, is_first=False)

    def event(token: int) -> SharesInitialized:
        return SharesInitialized(token=token, group_id=group_id, partitions=partitions, is_done=not failed)

    answer = guarded(request, told)
    services.groups.ask(group_id, event, ErrorCode, done=answer, refused=answer)


def _respond(
    services: Services, request: Request[shapes.ShareGroupHeartbeatRequest], result: ShareHeartbeatResult
) -> None:
    assignment: shapes.AssignmentFields | None = None
    if result.assignment is not None:
        partitions: list[shapes.TopicPartitionsFields] = [
            {"topic_id": topic_id, "partitions": sorted(indexes)}
            for topic_id, indexes in sorted(result.assignment.items())
        ]
        assignment = {"topic_partitions": partitions}
    interval_ms = services.part(SharePart).heartbeat_interval_ms(request.message.group_id)
    request.respond(
        response(
            ApiKey.SHARE_GROUP_HEARTBEAT,
            request.version,
            error_code=result.error_code,
            error_message=result.error_message,
            member_id=result.member_id,
            member_epoch=result.member_epoch,
            heartbeat_interval=interval_ms if result.member_epoch > 0 else 0,
            assignment=assignment,
        )
    )


def _problem(message: shapes.ShareGroupHeartbeatRequest, client_id: str) -> str | None:
    """Why the request is invalid, whatever the state of the group, with Kafka's messages. None if it is valid."""
    if not message.member_id or len(message.member_id) > MEMBER_ID_CHARACTERS_MAX:
        return "Invalid member id in the request."
    if not message.group_id:
        return "GroupId can't be empty."
    if message.rack_id == "":
        return "RackId can't be empty."
    if are_too_long(message.rack_id, client_id):
        return "An id is longer than 30000 bytes."
    if message.member_epoch == JOIN and not message.subscribed_topic_names:
        return "SubscribedTopicNames must be set in first request."
    if message.member_epoch < LEAVE:
        return "MemberEpoch is invalid."
    return None
