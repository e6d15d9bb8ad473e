"""StreamsGroupHeartbeat (key 88), version 0: a member of a streams group joins, shows that it is alive, reconciles and
leaves (KIP-1071).

As in Apache Kafka 4.3, there are no static members, no patterns of source topics, and no warm-up tasks: a request with
them is refused, and the answer has neither an acceptable recovery lag nor a task offset interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from broker.controller.topics import is_legal_name
from broker.coordinator.groups.streams.configured import InternalTopic
from broker.coordinator.groups.streams.events import (
    EndpointPartitions,
    StatusCode,
    StreamsHeartbeat,
    StreamsHeartbeatResult,
    TopicPartitions,
)
from broker.coordinator.groups.streams.tasks import TaskMap, Tasks
from broker.coordinator.groups.streams.topology import CopartitionGroup, Subtopology, TopicInfo, Topology
from broker.node.coordination.groups import are_too_long
from broker.node.coordination.internal_topics import is_internal
from broker.node.handlers.forwarding import ask_enveloped
from broker.node.handlers.services import Services
from broker.node.net.requests import Request, guarded
from broker.security.acls import Operation, ResourceType
from broker.security.authorizer import Access
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response, to_ms

if TYPE_CHECKING:
    from broker.wire.shapes import streams_group_heartbeat as shapes

JOIN, LEAVE_FOR_A_WHILE = 0, -2
CREATION_ERRORS_TOLD_MAX = 3
ERRORS_KEPT_HEARTBEATS = 2


def handle(services: Services, request: Request[shapes.StreamsGroupHeartbeatRequest]) -> None:
    message = request.message
    if not services.groups.is_streams_protocol_on:
        _respond(services, request, StreamsHeartbeatResult(error_code=ErrorCode.unsupported_version))
        return
    problem = topology_problem(message) or _unsupported(message) or _problem(message, request.client_id)
    if problem is not None:
        error, text = problem
        _respond(services, request, StreamsHeartbeatResult(error_code=error, error_message=text))
        return

    def done(result: StreamsHeartbeatResult) -> None:
        if result.topics_to_create:
            result = _with_creation(services, request, result)
        _respond(services, request, result)

    def refused(error: ErrorCode) -> None:
        _respond(services, request, StreamsHeartbeatResult(error_code=error))

    services.groups.ask(
        message.group_id,
        lambda token: _event(token, request),
        StreamsHeartbeatResult,
        done=guarded(request, done),
        refused=guarded(request, refused),
    )


# -- the question ----------------------------------------------------------------------------------------------------


def _event(token: int, request: Request[shapes.StreamsGroupHeartbeatRequest]) -> StreamsHeartbeat:
    message = request.message
    endpoint, tags = message.user_endpoint, message.client_tags
    return StreamsHeartbeat(
        token=token,
        group_id=message.group_id,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        endpoint_epoch=message.endpoint_information_epoch,
        rack_id=message.rack_id,
        rebalance_timeout_ms=to_ms(message.rebalance_timeout),
        topology=None if message.topology is None else _topology(message.topology),
        owned=_owned(message),
        process_id=message.process_id,
        user_endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        client_tags=None if tags is None else {tag.key: tag.value for tag in tags},
        shutdown_application=message.shutdown_application,
        client_id=request.client_id,
        client_host=request.peer_host,
    )


def _owned(message: shapes.StreamsGroupHeartbeatRequest) -> Tasks | None:
    active, standby, warmup = message.active_tasks, message.standby_tasks, message.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    return Tasks(active=_task_map(active), standby=_task_map(standby), warmup=_task_map(warmup))


def _task_map(tasks: Iterable[shapes.AskedTaskIds]) -> TaskMap:
    found: dict[str, frozenset[int]] = {}
    for each in tasks:
        found[each.subtopology_id] = found.get(each.subtopology_id, frozenset()) | frozenset(each.partitions)
    return found


def _topology(topology: shapes.Topology) -> Topology:
    return Topology(
        epoch=topology.epoch,
        subtopologies=tuple(
            Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=each.source_topics,
                source_topic_regex=each.source_topic_regex,
                state_changelog_topics=_topic_infos(each.state_changelog_topics),
                repartition_sink_topics=each.repartition_sink_topics,
                repartition_source_topics=_topic_infos(each.repartition_source_topics),
                copartition_groups=tuple(
                    CopartitionGroup(
                        source_topics=group.source_topics,
                        source_topic_regex=group.source_topic_regex,
                        repartition_source_topics=group.repartition_source_topics,
                    )
                    for group in each.copartition_groups
                ),
            )
            for each in topology.subtopologies
        ),
    )


def _topic_infos(topics: Iterable[shapes.TopicInfo]) -> tuple[TopicInfo, ...]:
    return tuple(
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            configs=tuple((config.key, config.value) for config in topic.topic_configs),
        )
        for topic in topics
    )


# -- what is refused, with Kafka's messages --------------------------------------------------------------------------


def topics_of(topology: shapes.Topology) -> list[str]:
    """All topics that the topology names, each once."""
    names: dict[str, None] = {}
    for each in topology.subtopologies:
        infos = (*each.repartition_source_topics, *each.state_changelog_topics)
        names.update(
            dict.fromkeys((*each.source_topics, *each.repartition_sink_topics, *(info.name for info in infos)))
        )
    return list(names)


def topology_problem(message: shapes.StreamsGroupHeartbeatRequest) -> tuple[ErrorCode, str | None] | None:
    if message.topology is None:
        return None
    names = topics_of(message.topology)
    error = ErrorCode.streams_invalid_topology
    internal = [name for name in names if is_internal(name)]
    if internal:
        return error, f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited."
    wrong = [name for name in names if not is_legal_name(name)]
    return (error, f"Topic names {','.join(wrong)} are not valid topic names.") if wrong else None


def _unsupported(message: shapes.StreamsGroupHeartbeatRequest) -> tuple[ErrorCode, str | None] | None:
    text = None
    if message.instance_id is not None:
        text = "Static membership is not yet supported."
    elif message.task_offsets is not None:
        text = "TaskOffsets are not supported yet."
    elif message.task_end_offsets is not None:
        text = "TaskEndOffsets are not supported yet."
    elif message.warmup_tasks:
        text = "WarmupTasks are not supported yet."
    elif message.topology is not None and any(each.source_topic_regex for each in message.topology.subtopologies):
        text = "Regular expressions for source topics are not supported yet."
    return None if text is None else (ErrorCode.invalid_request, text)


def _problem(message: shapes.StreamsGroupHeartbeatRequest, client_id: str) -> tuple[ErrorCode, str | None] | None:
    text = _field_problem(message, client_id)
    if text is not None:
        return ErrorCode.invalid_request, text
    if message.member_epoch == JOIN and message.topology is not None:
        for subtopology in message.topology.subtopologies:
            for topic in subtopology.state_changelog_topics:
                if topic.partitions:
                    text = (
                        f"Changelog topic {topic.name} must have an undefined partition count, but it is set to "
                        f"{topic.partitions}."
                    )
                    return ErrorCode.streams_invalid_topology, text
    text = _tasks_problem(message)
    if text is None and message.topology is not None and message.topology.epoch < 0:
        return ErrorCode.unknown_server_error, None  # as Kafka answers
    return None if text is None else (ErrorCode.invalid_request, text)


def _field_problem(message: shapes.StreamsGroupHeartbeatRequest, client_id: str) -> str | None:
    if not message.member_id.strip():
        return "MemberId can't be empty."
    if not message.group_id.strip():
        return "GroupId can't be empty."
    if message.rack_id is not None and not message.rack_id.strip():
        return "RackId can't be empty."
    if are_too_long(message.member_id, message.rack_id, message.process_id, client_id):
        return "An id is longer than 30000 bytes."
    if message.member_epoch == JOIN:
        return _join_problem(message)
    if message.member_epoch == LEAVE_FOR_A_WHILE:
        return "InstanceId can't be null."
    if message.member_epoch < LEAVE_FOR_A_WHILE:
        return f"MemberEpoch is {message.member_epoch}, but must be greater than or equal to -2."
    return None


def _join_problem(message: shapes.StreamsGroupHeartbeatRequest) -> str | None:
    if to_ms(message.rebalance_timeout) == -1:
        return "RebalanceTimeoutMs must be provided in first request."
    owned = (("Active", message.active_tasks), ("Standby", message.standby_tasks), ("Warmup", message.warmup_tasks))
    for kind, tasks in owned:
        if tasks is None or tasks:
            return f"{kind}Tasks must be empty when (re-)joining."
    return "Topology must be non-null when (re-)joining." if message.topology is None else None


def _tasks_problem(message: shapes.StreamsGroupHeartbeatRequest) -> str | None:
    given = [each is not None for each in (message.active_tasks, message.standby_tasks, message.warmup_tasks)]
    if any(given) and not all(given):
        return "If one task-type is non-null, all must be non-null."
    if message.member_epoch != JOIN and message.topology is not None:
        return "Topology can only be provided when (re-)joining."
    return None


# -- internal topics -------------------------------------------------------------------------------------------------


def _with_creation(
    services: Services, request: Request[shapes.StreamsGroupHeartbeatRequest], result: StreamsHeartbeatResult
) -> StreamsHeartbeatResult:
    """Lets the missing internal topics be created, if the client may create them. The status tells what is wrong."""
    wanted = result.topics_to_create
    refused = _not_allowed(request.access, wanted)
    if refused:
        return _with_detail(result, f"Unauthorized to CREATE on topics {', '.join(refused)}.")
    keep_ms = ERRORS_KEPT_HEARTBEATS * services.groups.streams_heartbeat_interval_ms(request.message.group_id)
    # With controller mutation quotas, the topics are charged to the client.
    ask = ask_enveloped(services, request) if services.change_quotas.is_active else services.control.call
    topics = services.groups.streams_topics
    topics.create(wanted, ask=ask, keep_errors_ms=keep_ms)
    errors = [f"{name} ({cause})" for name, cause in topics.errors(wanted).items()]
    if not errors:
        return result
    told = ", ".join(errors[:CREATION_ERRORS_TOLD_MAX])
    more = len(errors) - CREATION_ERRORS_TOLD_MAX
    return _with_detail(result, f"Creation failed: {told}{f' and {more} more' if more > 0 else ''}.")


def _not_allowed(access: Access | None, wanted: Mapping[str, InternalTopic]) -> list[str]:
    if access is None or access.could_on_cluster(Operation.CREATE):
        return []
    return [name for name in wanted if not access.may(Operation.CREATE, ResourceType.TOPIC, name)]


def _with_detail(result: StreamsHeartbeatResult, detail: str) -> StreamsHeartbeatResult:
    """Adds a sentence to the status of missing internal topics."""
    missing = StatusCode.MISSING_INTERNAL_TOPICS
    statuses = result.statuses
    if not any(code is missing for code, _ in statuses):
        return replace(result, statuses=(*statuses, (missing, detail)))
    told = tuple((code, f"{text}; {detail}" if code is missing else text) for code, text in statuses)
    return replace(result, statuses=told)


# -- the answer ------------------------------------------------------------------------------------------------------


def _respond(
    services: Services, request: Request[shapes.StreamsGroupHeartbeatRequest], result: StreamsHeartbeatResult
) -> None:
    interval_ms = services.groups.streams_heartbeat_interval_ms(request.message.group_id)
    assignment, endpoints = result.assignment, result.endpoints
    request.respond(
        response(
            ApiKey.STREAMS_GROUP_HEARTBEAT,
            request.version,
            error_code=result.error_code,
            error_message=result.error_message,
            member_id=result.member_id,
            member_epoch=result.member_epoch,
            heartbeat_interval=interval_ms if result.is_heartbeat else 0,
            status=[{"status_code": int(code), "status_detail": text} for code, text in result.statuses],
            active_tasks=None if assignment is None else _task_ids(assignment.active),
            standby_tasks=None if assignment is None else _task_ids(assignment.standby),
            warmup_tasks=None if assignment is None else _task_ids(assignment.warmup),
            endpoint_information_epoch=result.endpoint_epoch,
            partitions_by_user_endpoint=None if endpoints is None else [_endpoint(each) for each in endpoints],
        )
    )


def _task_ids(tasks: TaskMap) -> list[shapes.AnsweredTaskIdsFields]:
    return [
        {"subtopology_id": subtopology_id, "partitions": sorted(indexes)}
        for subtopology_id, indexes in sorted(tasks.items())
    ]


def _endpoint(each: EndpointPartitions) -> shapes.EndpointToPartitionsFields:
    host, port = each.endpoint
    return {
        "user_endpoint": {"host": host, "port": port},
        "active_partitions": _partitions(each.active),
        "standby_partitions": _partitions(each.standby),
    }


def _partitions(topics: TopicPartitions) -> list[shapes.TopicPartitionFields]:
    return [{"topic": name, "partitions": indexes} for name, indexes in topics]
