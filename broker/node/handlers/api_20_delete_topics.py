"""DeleteTopics (key 20), versions 1-6: deletes topics by name, and since version 6 also by id. On a client listener it
is forwarded to the controller.

The answer to a forwarded request waits until this broker's image no longer contains the topics.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

from broker.controller.image import MetadataImage
from broker.controller.topic_types import DeleteTopics, DeleteTopicsResponse
from broker.node.handlers.forwarding import Forward
from broker.node.handlers.rows import ControllerApi, MakeEvent
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response
from broker.wire.messages import request as make_request

if TYPE_CHECKING:
    from broker.wire.shapes import delete_topics as shapes

IDS_SINCE_VERSION = FORWARD_VERSION = 6
_Named: TypeAlias = tuple[str | None, UUID | None]  # a topic by its name or by its id


def refusal(services: Services, request: AnyRequest[shapes.DeleteTopicsRequest]) -> shapes.DeleteTopicsResponse | None:
    if services.config.cluster.delete_topic_enable:
        return None
    asked = _asked(request.version, request.message)
    return _all_failed(request.version, asked, ErrorCode.topic_deletion_disabled)


def event(services: Services, request: AnyRequest[shapes.DeleteTopicsRequest]) -> MakeEvent:
    names, topic_ids, _ = _sorted_out(_asked(request.version, request.message))
    return lambda token: DeleteTopics(token=token, names=names, topic_ids=topic_ids)


def answer(
    services: Services, request: AnyRequest[shapes.DeleteTopicsRequest], result: DeleteTopicsResponse
) -> shapes.DeleteTopicsResponse:
    asked = _asked(request.version, request.message)
    _, _, refused = _sorted_out(asked)
    return _to_kio(request.version, result, asked, refused)


def _asked(version: int, message: shapes.DeleteTopicsRequest) -> list[_Named]:
    if version >= IDS_SINCE_VERSION:
        return [(topic.name, topic.topic_id) for topic in message.topics]
    return [(name, None) for name in message.topic_names]


def _sorted_out(
    asked: list[_Named],
) -> tuple[tuple[str, ...], tuple[UUID, ...], list[shapes.DeletableTopicResultFields]]:
    """Returns (names, ids, refused entries). An entry is refused if it has both a name and an id, or neither, or if its
    name or id occurs more than once."""
    is_clear = [(name is None) != (topic_id is None) for name, topic_id in asked]
    times = Counter(each for each, clear in zip(asked, is_clear, strict=True) if clear)
    wrong = [each for each, clear in zip(asked, is_clear, strict=True) if not clear]
    wrong += [each for each, count in times.items() if count > 1]
    once = [each for each, count in times.items() if count == 1]
    return (
        tuple(name for name, _ in once if name is not None),
        tuple(topic_id for name, topic_id in once if name is None and topic_id is not None),
        [_entry(name, topic_id, ErrorCode.invalid_request) for name, topic_id in wrong],
    )


def _entry(name: str | None, topic_id: UUID | None, error: int) -> shapes.DeletableTopicResultFields:
    return {"name": name, "topic_id": topic_id, "error_code": error}


def _to_kio(
    version: int, result: DeleteTopicsResponse, asked: list[_Named], refused: list[shapes.DeletableTopicResultFields]
) -> shapes.DeleteTopicsResponse:
    if result.error_code != ErrorCode.none:
        return _all_failed(version, asked, ErrorCode(result.error_code))
    responses = [_entry(each.name, each.topic_id, each.error_code) for each in result.topics]
    return response(ApiKey.DELETE_TOPICS, version, responses=refused + responses)


def _all_failed(version: int, asked: list[_Named], error: ErrorCode) -> shapes.DeleteTopicsResponse:
    responses = [_entry(name, topic_id, error) for name, topic_id in asked]
    return response(ApiKey.DELETE_TOPICS, version, responses=responses)


def _sent(request: AnyRequest[shapes.DeleteTopicsRequest], timeout_ms: int) -> shapes.DeleteTopicsRequest:
    topics: list[shapes.DeleteTopicStateFields] = [
        {"name": name, "topic_id": topic_id} for name, topic_id in _asked(request.version, request.message)
    ]
    return make_request(ApiKey.DELETE_TOPICS, FORWARD_VERSION, topics=topics, timeout=timeout_ms)


def _unanswered(
    request: AnyRequest[shapes.DeleteTopicsRequest], error: ErrorCode, cause: str | None
) -> shapes.DeleteTopicsResponse:
    return _all_failed(request.version, _asked(request.version, request.message), error)


def _shows(image: MetadataImage, message: shapes.DeleteTopicsRequest, answered: shapes.DeleteTopicsResponse) -> bool:
    gone = [each for each in answered.responses if each.error_code is ErrorCode.none]
    # If an answer has no id, the controller was asked in a version without ids.
    ids = {topic_id for each in gone if (topic_id := field_or(each, "topic_id", None)) is not None}
    names = {each.name for each in gone if field_or(each, "topic_id", None) is None}
    return not ids & set(image.topic_names) and not names & set(image.topics)


CONTROLLER = ControllerApi(event=event, answer=answer)
FORWARD: Forward[shapes.DeleteTopicsRequest, shapes.DeleteTopicsResponse] = Forward(
    version=FORWARD_VERSION, failed=_unanswered, is_visible=_shows, visible_within_ms=None, sent=_sent
)
