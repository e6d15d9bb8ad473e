"""Metadata (key 3), versions 0-13: brokers and partitions, with the endpoints of the listener that the client uses.

A missing topic is created if the client and auto.create.topics.enable allow it. The answer waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

from broker.controller.image import MetadataImage, TopicState
from broker.controller.topics import is_legal_name
from broker.node.handlers import operations
from broker.node.handlers.forwarding import told_controller
from broker.node.handlers.services import Services
from broker.node.net.channel import ChannelError
from broker.node.net.requests import AnyRequest
from broker.node.process.clock import monotonic_ms
from broker.security.acls import Operation, ResourceType
from broker.security.authorizer import Access
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response
from broker.wire.messages import request as make_request

if TYPE_CHECKING:
    from broker.wire.shapes import metadata as shapes
    from broker.wire.shapes.create_topics import CreatableTopicFields

ALL_TOPICS_ARE_NULL_SINCE_VERSION = 1
BY_ID_SINCE_VERSION = 12
CREATE_TOPICS_VERSION = 7
CREATE_TIMEOUT_MS = 5_000


def handle(services: Services, request: AnyRequest[shapes.MetadataRequest]) -> None:
    image = services.metadata.image
    if not _is_sensible(request):
        request.respond(_refused(request))
        return
    missing = _missing_names(request, image)
    may_create = services.config.cluster.auto_create_topics_enable and field_or(
        request.message, "allow_auto_topic_creation", True
    )
    errors: dict[str, ErrorCode] = {}
    if missing and may_create:
        errors = _denied(request, missing)
        missing = [name for name in missing if name not in errors]
        if missing:
            services.serve(request, _create_then_answer(services, request, missing, errors))
            return
    request.respond(_answer(services, request, errors))


def _denied(request: AnyRequest[shapes.MetadataRequest], names: list[str]) -> dict[str, ErrorCode]:
    """The topics that this client is not allowed to create."""
    access = request.access
    if access is None or access.could_on_cluster(Operation.CREATE):
        return {}
    return {
        name: ErrorCode.topic_authorization_failed
        for name in names
        if not access.may(Operation.CREATE, ResourceType.TOPIC, name)
    }


def _is_sensible(request: AnyRequest[shapes.MetadataRequest]) -> bool:
    """Whether the request names its topics in a valid way, by name or by id. Ids exist since version 10, but a request
    may use them only since version 12 (KIP-516)."""
    asked = request.message.topics or ()
    is_by_id = any(field_or(each, "topic_id", None) is not None for each in asked)
    if is_by_id:  # then names are ignored, as in Kafka
        return request.version >= BY_ID_SINCE_VERSION
    return all(each.name is not None for each in asked)


def _refused(request: AnyRequest[shapes.MetadataRequest]) -> shapes.MetadataResponse:
    may_be_null = request.version >= BY_ID_SINCE_VERSION
    topics = [
        _absent(each.name if may_be_null else each.name or "", each.topic_id, ErrorCode.invalid_request)
        for each in request.message.topics or ()
    ]
    return response(
        ApiKey.METADATA,
        request.version,
        brokers=[],
        cluster_id=None,
        controller_id=-1,
        topics=topics,
        cluster_authorized_operations=operations.NOT_ASKED,
    )


def _missing_names(request: AnyRequest[shapes.MetadataRequest], image: MetadataImage) -> list[str]:
    topics = request.message.topics or ()
    if any(field_or(topic, "topic_id", None) is not None for topic in topics):
        return []  # a request by ids ignores names
    return [
        topic.name
        for topic in topics
        if topic.name is not None and topic.name not in image.topics and _may_describe(request.access, topic.name)
    ]


def _would_see(access: Access | None, name: str) -> bool:
    """Whether the client sees a topic that the request does not name. If not, the topic is left out; this is not a
    denial."""
    return access is None or access.could(Operation.DESCRIBE, ResourceType.TOPIC, name)


def _may_describe(access: Access | None, name: str) -> bool:
    return access is None or access.may(Operation.DESCRIBE, ResourceType.TOPIC, name)


async def _create_then_answer(
    services: Services, request: AnyRequest[shapes.MetadataRequest], names: list[str], denied: dict[str, ErrorCode]
) -> None:
    wanted: list[CreatableTopicFields] = [
        {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": [], "configs": []}
        for name in names
    ]
    message = make_request(
        ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, topics=wanted, timeout=CREATE_TIMEOUT_MS, validate_only=False
    )
    deadline_ms = monotonic_ms() + CREATE_TIMEOUT_MS
    errors: dict[str, ErrorCode] = {}
    try:
        created = await services.control.call(
            ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, message, timeout_ms=CREATE_TIMEOUT_MS
        )
        errors = {topic.name: topic.error_code for topic in created.topics}
    except ChannelError as error:
        services.logger.warning("auto_create_failed", topics=names, cause=repr(str(error)))
    made = (ErrorCode.none, ErrorCode.topic_already_exists)
    expected = {name for name, error in errors.items() if error in made}
    while expected - set(services.metadata.image.topics) and monotonic_ms() < deadline_ms:
        await services.image_moves.wait(max(1, deadline_ms - monotonic_ms()))
    request.respond(_answer(services, request, {**errors, **denied}))


def _answer(
    services: Services, request: AnyRequest[shapes.MetadataRequest], errors: dict[str, ErrorCode]
) -> shapes.MetadataResponse:
    image = services.metadata.image
    live = image.live_broker_ids()
    brokers: list[shapes.MetadataResponseBrokerFields] = []
    for broker_id in live:
        broker = image.brokers[broker_id]
        endpoint = broker.endpoints.get(request.listener_name)
        if endpoint is not None:
            brokers.append({"node_id": broker_id, "host": endpoint.host, "port": endpoint.port, "rack": broker.rack})
    return response(
        ApiKey.METADATA,
        request.version,
        brokers=brokers,
        cluster_id=services.config.own.harness_cluster_id,
        controller_id=told_controller(services),
        topics=_topics(services, request, errors),
        cluster_authorized_operations=operations.asked_of_cluster(
            field_or(request.message, "include_cluster_authorized_operations", False), request.access
        ),
    )


def _topics(
    services: Services, request: AnyRequest[shapes.MetadataRequest], errors: dict[str, ErrorCode]
) -> list[shapes.MetadataResponseTopicFields]:
    image, asked = services.metadata.image, request.message.topics
    access = request.access
    are_asked = field_or(request.message, "include_topic_authorized_operations", False)

    def allowed(name: str) -> int:
        return operations.asked(are_asked, access, ResourceType.TOPIC, name)

    if asked is None or (request.version < ALL_TOPICS_ARE_NULL_SINCE_VERSION and not asked):
        seen = [name for name in sorted(image.topics) if _would_see(access, name)]
        return [_topic(services, image.topics[name], allowed(name)) for name in seen]
    ids = dict.fromkeys(each.topic_id for each in asked if field_or(each, "topic_id", None) is not None)
    if ids:  # then names are ignored, as in Kafka
        return [_by_id(services, access, topic_id, allowed) for topic_id in ids]
    names = dict.fromkeys(each.name for each in asked if each.name is not None)
    return [_by_name(services, access, name, errors, allowed) for name in names]


def _by_id(
    services: Services, access: Access | None, topic_id: UUID | None, allowed: Callable[[str], int]
) -> shapes.MetadataResponseTopicFields:
    image = services.metadata.image
    name = image.topic_names.get(topic_id)
    if name is None:
        return _absent(None, topic_id, ErrorCode.unknown_topic_id)
    if not _may_describe(access, name):
        return _absent(None, topic_id, ErrorCode.topic_authorization_failed)
    return _topic(services, image.topics[name], allowed(name))


def _by_name(
    services: Services,
    access: Access | None,
    name: str,
    errors: dict[str, ErrorCode],
    allowed: Callable[[str], int],
) -> shapes.MetadataResponseTopicFields:
    """The answer for a topic that was asked for by name. A client that may not describe the topic does not learn
    whether it exists."""
    if not _may_describe(access, name):
        return _absent(name, None, ErrorCode.topic_authorization_failed)
    state = services.metadata.image.topics.get(name)
    if state is not None:
        return _topic(services, state, allowed(name))
    if errors.get(name) is ErrorCode.topic_authorization_failed:
        return _absent(name, None, ErrorCode.topic_authorization_failed)
    return _absent(name, None, _why_absent(name, errors), allowed(name))


def _why_absent(name: str, errors: dict[str, ErrorCode]) -> ErrorCode:
    if name in errors:
        # If the topic was created but is not in this broker's image yet, the client asks again.
        return errors[name] if errors[name] is not ErrorCode.none else ErrorCode.leader_not_available
    return ErrorCode.unknown_topic_or_partition if is_legal_name(name) else ErrorCode.invalid_topic_exception


def _absent(
    name: str | None, topic_id: UUID | None, error: ErrorCode, allowed: int = operations.NOT_ASKED
) -> shapes.MetadataResponseTopicFields:
    return {
        "error_code": error,
        "name": name,
        "topic_id": topic_id,
        "is_internal": False,
        "partitions": [],
        "topic_authorized_operations": allowed,
    }


def _topic(services: Services, state: TopicState, allowed: int) -> shapes.MetadataResponseTopicFields:
    image = services.metadata.image
    live = set(image.live_broker_ids())
    partitions: list[shapes.MetadataResponsePartitionFields] = [
        {
            "error_code": ErrorCode.none if each.leader >= 0 else ErrorCode.leader_not_available,
            "partition_index": index,
            "leader_id": each.leader,
            "leader_epoch": each.leader_epoch,
            "replica_nodes": each.replicas,
            "isr_nodes": each.isr,
            "offline_replicas": [
                replica
                for replica in each.replicas
                if replica not in live or image.has_offline(replica, state.topic_id, index)
            ],
        }
        for index, each in enumerate(state.partitions)
    ]
    return {
        "error_code": ErrorCode.none,
        "name": state.name,
        "topic_id": state.topic_id,
        "is_internal": state.name in services.internal_topics,
        "partitions": partitions,
        "topic_authorized_operations": allowed,
    }
