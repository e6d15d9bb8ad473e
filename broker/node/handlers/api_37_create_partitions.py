"""CreatePartitions (key 37), versions 0-3 (KIP-195). On a client listener it is forwarded to the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controller.image import MetadataImage
from broker.controller.topic_types import CreatePartitions, CreatePartitionsResponse, NewPartitions
from broker.node.handlers.forwarding import Forward
from broker.node.handlers.rows import ControllerApi, MakeEvent
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import create_partitions as shapes


def event(services: Services, request: AnyRequest[shapes.CreatePartitionsRequest]) -> MakeEvent:
    message = request.message
    topics = tuple(
        NewPartitions(
            topic=topic.name,
            count=topic.count,
            assignments=None
            if topic.assignments is None
            else tuple(tuple(each.broker_ids) for each in topic.assignments),
        )
        for topic in message.topics
    )
    return lambda token: CreatePartitions(token=token, topics=topics, validate_only=message.validate_only)


def answer(
    services: Services, request: AnyRequest[shapes.CreatePartitionsRequest], result: CreatePartitionsResponse
) -> shapes.CreatePartitionsResponse:
    if result.error_code != ErrorCode.none:
        return _all_failed(request, ErrorCode(result.error_code), None)
    results: list[shapes.CreatePartitionsTopicResultFields] = [
        {"name": each.topic, "error_code": each.error_code, "error_message": each.error_message}
        for each in result.topics
    ]
    return response(ApiKey.CREATE_PARTITIONS, request.version, results=results)


def _all_failed(
    request: AnyRequest[shapes.CreatePartitionsRequest], error: ErrorCode, cause: str | None
) -> shapes.CreatePartitionsResponse:
    results: list[shapes.CreatePartitionsTopicResultFields] = [
        {"name": each.name, "error_code": error, "error_message": cause} for each in request.message.topics
    ]
    return response(ApiKey.CREATE_PARTITIONS, request.version, results=results)


def _shows(
    image: MetadataImage, message: shapes.CreatePartitionsRequest, answer: shapes.CreatePartitionsResponse
) -> bool:
    made = {each.name for each in answer.results if each.error_code is ErrorCode.none}
    return all(
        topic.name not in made
        or (topic.name in image.topics and len(image.topics[topic.name].partitions) >= topic.count)
        for topic in message.topics
    )


CONTROLLER = ControllerApi(event=event, answer=answer)
FORWARD: Forward[shapes.CreatePartitionsRequest, shapes.CreatePartitionsResponse] = Forward(
    version=3,
    failed=_all_failed,
    is_visible=lambda image, message, answered: message.validate_only or _shows(image, message, answered),
)
