"""FindCoordinator (key 10), versions 0-6: the broker that leads the internal topic's partition for a key.

The first request of a key type creates its topic and waits for it. Key type 0 is a group, and 1 a transactional id.
Since version 6 there is also key type 2, the state of a share partition (GROUP:TOPIC-ID:PARTITION); it gets
INVALID_REQUEST if share groups are off. COORDINATOR_NOT_AVAILABLE means that there is no leader yet or that the topic
cannot be created. The message gives the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response

if TYPE_CHECKING:
    from broker.wire.shapes import find_coordinator as shapes

KEYS_SINCE_VERSION = 4
KEY_TYPE_OF_VERSION_0 = 0


def handle(services: Services, request: AnyRequest[shapes.FindCoordinatorRequest]) -> None:
    key_type = int(field_or(request.message, "key_type", KEY_TYPE_OF_VERSION_0))
    has_keys = request.version >= KEYS_SINCE_VERSION
    keys = tuple(request.message.coordinator_keys) if has_keys else (request.message.key,)
    host = services.coordinators.get(key_type)
    problem = None if host is None else host.key_problem(request.version, keys)
    if problem is not None:
        _answer(request, [_failed(key, ErrorCode.invalid_request, problem) for key in keys])
    elif host is None:
        text = f"no coordinator of key type {key_type} here"
        _answer(request, [_failed(key, ErrorCode.invalid_request, text) for key in keys])
    elif host.topic.name in services.metadata.image.topics:
        _answer(request, [_found(services, request, key_type, key) for key in keys])
    else:
        services.serve(request, _make_topic_then_answer(services, request, key_type, keys))


async def _make_topic_then_answer(
    services: Services, request: AnyRequest[shapes.FindCoordinatorRequest], key_type: int, keys: Sequence[str]
) -> None:
    problem = await services.coordinators[key_type].ensure_topic()
    if problem is None:
        _answer(request, [_found(services, request, key_type, key) for key in keys])
    else:
        _answer(request, [_failed(key, ErrorCode.coordinator_not_available, problem) for key in keys])


def _found(
    services: Services, request: AnyRequest[shapes.FindCoordinatorRequest], key_type: int, key: str
) -> shapes.CoordinatorFields:
    host = services.coordinators[key_type]
    state = host.partition_state(key)
    leader = -1 if state is None else state.leader
    registration = services.metadata.image.brokers.get(leader)
    if registration is None or registration.fenced:
        problem = f"partition {host.partition_of(key)} of {host.topic.name} has no leader now"
        return _failed(key, ErrorCode.coordinator_not_available, problem)
    endpoint = registration.endpoints.get(request.listener_name)
    if endpoint is None:
        problem = f"broker {leader} has no listener {request.listener_name}"
        return _failed(key, ErrorCode.coordinator_not_available, problem)
    return {
        "key": key,
        "error_code": ErrorCode.none,
        "error_message": None,
        "node_id": leader,
        "host": endpoint.host,
        "port": endpoint.port,
    }


def _failed(key: str, error: ErrorCode, message: str) -> shapes.CoordinatorFields:
    return {"key": key, "error_code": error, "error_message": message, "node_id": -1, "host": "", "port": -1}


def _answer(request: AnyRequest[shapes.FindCoordinatorRequest], found: list[shapes.CoordinatorFields]) -> None:
    if request.version >= KEYS_SINCE_VERSION:
        request.respond(response(ApiKey.FIND_COORDINATOR, request.version, coordinators=found))
    else:
        only = found[0]
        request.respond(
            response(
                ApiKey.FIND_COORDINATOR,
                request.version,
                error_code=only["error_code"],
                error_message=only["error_message"],
                node_id=only["node_id"],
                host=only["host"],
                port=only["port"],
            )
        )
