"""ElectLeaders (key 43), versions 0-2 (KIP-183, KIP-460): preferred, and since version 1 unclean.

On a client listener it is forwarded to the controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.controller.types import ElectLeaders
from broker.node.control import AnyRequest
from broker.node.forwarding import forward
from broker.wire.apis import ApiKey, Listener
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message, response

if TYPE_CHECKING:
    from broker.node.broker import Broker

FORWARD_VERSION = 2
PREFERRED, UNCLEAN = 0, 1


def handle(broker: Broker, request: AnyRequest) -> None:
    message = request.message
    kind = getattr(message, "election_type", PREFERRED)
    if kind not in (PREFERRED, UNCLEAN) and message.topic_partitions != ():
        request.respond(_failed(request, ErrorCode.invalid_request))
        return
    if request.listener is not Listener.CONTROLLER:
        broker.serve(
            request,
            forward(
                broker,
                request,
                api_key=ApiKey.ELECT_LEADERS,
                version=FORWARD_VERSION,
                failed=lambda error, cause: _failed(request, error),
            ),
        )
        return
    partitions = None
    if message.topic_partitions is not None:
        partitions = tuple((each.topic, index) for each in message.topic_partitions for index in each.partitions)

    def answer(result: Any) -> None:  # the response type of this request
        if result.error_code != ErrorCode.none:
            request.respond(_failed(request, ErrorCode(result.error_code)))
            return
        # Asked for all, only those where something was to do are told of, beneath every topic's name.
        asked = message.topic_partitions
        named = list(broker.metadata.image.topics) if asked is None else [each.topic for each in asked]
        topics: dict[str, list[dict[str, object]]] = {name: [] for name in named}
        for each in result.partitions:
            outcome = {
                "partition_id": each.partition,
                "error_code": each.error_code,
                "error_message": each.error_message,
            }
            topics.setdefault(each.topic, []).append(outcome)
        results = [{"topic": topic, "partition_result": outcomes} for topic, outcomes in topics.items()]
        request.respond(
            response(
                ApiKey.ELECT_LEADERS,
                request.version,
                error_code=ErrorCode.none,
                replica_election_results=results,
            )
        )

    broker.ask_controller(
        request, lambda token: ElectLeaders(token=token, unclean=kind == UNCLEAN, partitions=partitions), answer
    )


def _failed(request: AnyRequest, error: ErrorCode) -> Message:
    """Version 0 has no error of its own: it is told for each partition."""
    results = [
        {
            "topic": each.topic,
            "partition_result": [
                {"partition_id": index, "error_code": error, "error_message": None} for index in each.partitions
            ],
        }
        for each in request.message.topic_partitions or ()
    ]
    return response(ApiKey.ELECT_LEADERS, request.version, error_code=error, replica_election_results=results)
