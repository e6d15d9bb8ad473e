"""AllocateProducerIds (key 67), version 0, on the controller listener: a block of ids for one broker. Complete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.controller.types import AllocateProducerIds
from broker.node.control import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.node.broker import Broker


def handle(broker: Broker, request: AnyRequest) -> None:
    message = request.message

    def answer(result: Any) -> None:  # the response type of this request
        request.respond(
            response(
                ApiKey.ALLOCATE_PRODUCER_IDS,
                request.version,
                error_code=result.error_code,
                producer_id_start=result.producer_id_start,
                producer_id_len=result.producer_id_count,
            )
        )

    broker.ask_controller(
        request,
        lambda token: AllocateProducerIds(token=token, broker_id=message.broker_id, broker_epoch=message.broker_epoch),
        answer,
    )
