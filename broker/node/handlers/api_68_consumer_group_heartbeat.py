"""ConsumerGroupHeartbeat (key 68), versions 0-1: one request by which a member joins, shows that it is alive,
reconciles and leaves (KIP-848).

In version 0 the broker creates the member id. In version 1 the client creates it. Version 1 has subscribed_topic_regex.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, cast

from broker.coordinator.groups.events import ConsumerHeartbeat, ConsumerHeartbeatResult
from broker.coordinator.groups.records import Assignment
from broker.node.coordination.groups import are_too_long
from broker.node.handlers.services import Services
from broker.node.net.requests import Request, guarded
from broker.security.acls import Operation, ResourceType
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response, to_ms

if TYPE_CHECKING:
    from uuid import UUID

    from broker.wire.shapes import consumer_group_heartbeat as shapes

CLIENT_MADE_ID_SINCE_VERSION = 1
JOIN, LEAVE, LEAVE_FOR_A_WHILE = 0, -1, -2


def handle(services: Services, request: Request[shapes.ConsumerGroupHeartbeatRequest]) -> None:
    message, config, access = request.message, services.groups.config, request.access

    def done(result: ConsumerHeartbeatResult) -> None:
        request.respond(_answer(request.version, result, services.groups.heartbeat_interval_ms(message.group_id)))

    def refused(error: ErrorCode, text: str | None = None) -> None:
        done(ConsumerHeartbeatResult(error_code=error, error_message=text))

    if not services.groups.is_consumer_protocol_on:
        refused(ErrorCode.unsupported_version)
        return
    problem = _problem(request.version, message, request.client_id)
    if problem is not None:
        refused(ErrorCode.invalid_request, problem)
        return
    if message.server_assignor is not None and message.server_assignor not in config.group_consumer_assignors:
        known = ", ".join(config.group_consumer_assignors)
        refused(
            ErrorCode.unsupported_assignor, f"assignor {message.server_assignor} is not supported; there is: {known}"
        )
        return

    def event(token: int) -> ConsumerHeartbeat:
        owned = message.topic_partitions
        return ConsumerHeartbeat(
            token=token,
            group_id=message.group_id,
            member_id=message.member_id,
            member_epoch=message.member_epoch,
            instance_id=message.instance_id,
            rack_id=message.rack_id,
            rebalance_timeout_ms=to_ms(message.rebalance_timeout),
            subscribed_topic_names=message.subscribed_topic_names,
            subscribed_topic_regex=field_or(message, "subscribed_topic_regex", None),
            server_assignor=message.server_assignor,
            owned=None if owned is None else _assigned(owned),
            client_id=request.client_id,
            client_host=request.peer_host,
            may_describe=None if access is None else partial(access.could, Operation.DESCRIBE, ResourceType.TOPIC),
        )

    services.groups.ask(
        message.group_id, event, ConsumerHeartbeatResult, done=guarded(request, done), refused=guarded(request, refused)
    )


def _assigned(owned: Iterable[shapes.AskedTopicPartitions]) -> Assignment:
    """The zero id (None) belongs to no topic. It stays in the result, as a topic that cannot have been assigned to the
    member."""
    return {cast("UUID", each.topic_id): frozenset(each.partitions) for each in owned}


def _answer(version: int, result: ConsumerHeartbeatResult, interval_ms: int) -> shapes.ConsumerGroupHeartbeatResponse:
    assignment: shapes.AssignmentFields | None = None
    if result.assignment is not None:
        partitions: list[shapes.AnsweredTopicPartitionsFields] = [
            {"topic_id": topic_id, "partitions": sorted(indexes)}
            for topic_id, indexes in sorted(result.assignment.items())
        ]
        assignment = {"topic_partitions": partitions}
    return response(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        version,
        error_code=result.error_code,
        error_message=result.error_message,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval=interval_ms if result.member_epoch > 0 else 0,
        assignment=assignment,
    )


def _problem(version: int, message: shapes.ConsumerGroupHeartbeatRequest, client_id: str) -> str | None:
    """Why the request is invalid, whatever the state of the group. None if it is valid."""
    epoch = message.member_epoch
    if not message.group_id:
        return "GroupId can't be empty."
    pattern = field_or(message, "subscribed_topic_regex", None)
    if are_too_long(message.member_id, message.instance_id, client_id, pattern):
        return "An id or a pattern is longer than 30000 bytes."
    if message.instance_id == "":
        return "InstanceId can't be empty."
    if message.rack_id == "":
        return "RackId can't be empty."
    is_leaving_or_known = epoch > JOIN or epoch == LEAVE
    if (version >= CLIENT_MADE_ID_SINCE_VERSION or is_leaving_or_known) and not message.member_id:
        return "MemberId can't be empty."
    if epoch < LEAVE_FOR_A_WHILE:
        return f"MemberEpoch is {epoch}, but must be greater than or equal to -2."
    if epoch == LEAVE_FOR_A_WHILE and message.instance_id is None:
        return "InstanceId can't be null."
    if epoch == JOIN:
        if to_ms(message.rebalance_timeout) < 0:
            return "RebalanceTimeoutMs must be provided in first request."
        if message.topic_partitions is None or message.topic_partitions:
            return "TopicPartitions must be empty when (re-)joining."
        if not message.subscribed_topic_names and pattern is None and message.subscribed_topic_names is None:
            return "Either SubscribedTopicNames or SubscribedTopicRegex must be set in first request."
    return None
