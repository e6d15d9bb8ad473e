"""DeleteTopics (key 20), versions 1-6, by name or (6) by id. On a client listener it is forwarded to the controller.

The answer of a forwarded request waits until this broker's image no longer holds the topics.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from broker.controller.types import DeleteTopics, DeleteTopicsResponse
from broker.node.channel import ChannelError
from broker.node.clock import monotonic_ms
from broker.node.control import AnyRequest
from broker.wire.apis import ApiKey, Listener
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message, response, to_ms
from broker.wire.messages import request as make_request

if TYPE_CHECKING:
    from broker.node.broker import Broker

FORWARD_VERSION = 6
TIMEOUT_MS_MIN = 1_000
TIMEOUT_MS_MAX = 60_000


def handle(broker: Broker, request: AnyRequest) -> None:
    if not broker.config.delete_topic_enable:
        asked = _asked(request.version, request.message)
        request.respond(_all_failed(request.version, asked, ErrorCode.topic_deletion_disabled))
        return
    if request.listener is not Listener.CONTROLLER:
        broker.serve(request, _forward(broker, request))
        return
    asked = _asked(request.version, request.message)
    names, topic_ids, refused = _sorted_out(asked)

    def answer(result: Any) -> None:  # the response type of this request
        request.respond(_to_kio(request.version, result, asked, refused))

    broker.ask_controller(request, lambda token: DeleteTopics(token=token, names=names, topic_ids=topic_ids), answer)


def _asked(version: int, message: Message) -> list[tuple[str | None, Any]]:
    if version >= FORWARD_VERSION:
        return [(topic.name, topic.topic_id) for topic in message.topics]
    return [(name, None) for name in message.topic_names]


def _sorted_out(
    asked: list[tuple[str | None, Any]],
) -> tuple[tuple[str, ...], tuple[Any, ...], list[dict[str, object]]]:
    """(names, ids, what is refused unseen): named by both or by neither, or by the same name or id more than once."""
    is_clear = [(name is None) != (topic_id is None) for name, topic_id in asked]
    times = Counter(each for each, clear in zip(asked, is_clear, strict=True) if clear)
    wrong = [each for each, clear in zip(asked, is_clear, strict=True) if not clear]
    wrong += [each for each, count in times.items() if count > 1]
    once = [each for each, count in times.items() if count == 1]
    return (
        tuple(name for name, _ in once if name is not None),
        tuple(topic_id for name, topic_id in once if name is None),
        [_entry(name, topic_id, ErrorCode.invalid_request) for name, topic_id in wrong],
    )


def _entry(name: str | None, topic_id: Any, error: int) -> dict[str, object]:
    return {"name": name, "topic_id": topic_id, "error_code": error}


def _to_kio(
    version: int, result: DeleteTopicsResponse, asked: list[tuple[str | None, Any]], refused: list[dict[str, object]]
) -> Message:
    if result.error_code != ErrorCode.none:
        return _all_failed(version, asked, ErrorCode(result.error_code))
    responses = [_entry(each.name, each.topic_id, each.error_code) for each in result.topics]
    return response(ApiKey.DELETE_TOPICS, version, responses=refused + responses)


def _all_failed(version: int, asked: list[tuple[str | None, Any]], error: ErrorCode) -> Message:
    responses = [_entry(name, topic_id, error) for name, topic_id in asked]
    return response(ApiKey.DELETE_TOPICS, version, responses=responses)


async def _forward(broker: Broker, request: AnyRequest) -> None:
    timeout_ms = min(max(to_ms(request.message.timeout), TIMEOUT_MS_MIN), TIMEOUT_MS_MAX)
    deadline_ms = monotonic_ms() + timeout_ms
    asked = _asked(request.version, request.message)
    topics = [{"name": name, "topic_id": topic_id} for name, topic_id in asked]
    message = make_request(ApiKey.DELETE_TOPICS, FORWARD_VERSION, topics=topics, timeout=timeout_ms)
    try:
        answer = await broker.control.call(ApiKey.DELETE_TOPICS, FORWARD_VERSION, message, timeout_ms=timeout_ms)
    except ChannelError:
        request.respond(_all_failed(request.version, asked, ErrorCode.request_timed_out))
        return
    gone = {each.topic_id for each in answer.responses if each.error_code is ErrorCode.none}
    while gone & set(broker.metadata.image.topic_names) and monotonic_ms() < deadline_ms:
        await broker.image_moves(max(1, deadline_ms - monotonic_ms()))
    responses = [_entry(each.name, each.topic_id, each.error_code) for each in answer.responses]
    request.respond(response(ApiKey.DELETE_TOPICS, request.version, responses=responses))
