"""CreatePartitions (key 37), versions 0-3 (KIP-195). On a client listener it is forwarded to the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.controller.image import MetadataImage
from broker.controller.types import CreatePartitions, NewPartitions
from broker.node.control import AnyRequest
from broker.node.forwarding import forward
from broker.wire.apis import ApiKey, Listener
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message, response

if TYPE_CHECKING:
    from broker.node.broker import Broker

FORWARD_VERSION = 3


def handle(broker: Broker, request: AnyRequest) -> None:
    message = request.message
    if request.listener is not Listener.CONTROLLER:
        broker.serve(
            request,
            forward(
                broker,
                request,
                api_key=ApiKey.CREATE_PARTITIONS,
                version=FORWARD_VERSION,
                failed=lambda error, cause: _all_failed(request, error, cause),
                is_visible=lambda image, answer: message.validate_only or _shows(image, message, answer),
            ),
        )
        return
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

    def answer(result: Any) -> None:  # the response type of this request
        if result.error_code != ErrorCode.none:
            request.respond(_all_failed(request, ErrorCode(result.error_code), None))
            return
        results = [
            {"name": each.topic, "error_code": each.error_code, "error_message": each.error_message}
            for each in result.topics
        ]
        request.respond(response(ApiKey.CREATE_PARTITIONS, request.version, results=results))

    broker.ask_controller(
        request, lambda token: CreatePartitions(token=token, topics=topics, validate_only=message.validate_only), answer
    )


def _all_failed(request: AnyRequest, error: ErrorCode, cause: str | None) -> Message:
    results = [{"name": each.name, "error_code": error, "error_message": cause} for each in request.message.topics]
    return response(ApiKey.CREATE_PARTITIONS, request.version, results=results)


def _shows(image: MetadataImage, message: Message, answer: Message) -> bool:
    made = {each.name for each in answer.results if each.error_code is ErrorCode.none}
    return all(
        topic.name not in made
        or (topic.name in image.topics and len(image.topics[topic.name].partitions) >= topic.count)
        for topic in message.topics
    )
