"""AllocateProducerIds (key 67), version 0, on the controller listener: a block of ids for one broker. Nothing is left
out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controller.types import AllocateProducerIds, AllocateProducerIdsResponse
from broker.node.handlers.rows import ControllerApi, MakeEvent
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import allocate_producer_ids as shapes


def event(services: Services, request: AnyRequest[shapes.AllocateProducerIdsRequest]) -> MakeEvent:
    broker_id, broker_epoch = request.message.broker_id, request.message.broker_epoch
    return lambda token: AllocateProducerIds(token=token, broker_id=broker_id, broker_epoch=broker_epoch)


def answer(
    services: Services, request: AnyRequest[shapes.AllocateProducerIdsRequest], result: AllocateProducerIdsResponse
) -> shapes.AllocateProducerIdsResponse:
    return response(
        ApiKey.ALLOCATE_PRODUCER_IDS,
        request.version,
        error_code=result.error_code,
        producer_id_start=result.producer_id_start,
        producer_id_len=result.producer_id_count,
    )


CONTROLLER = ControllerApi(event=event, answer=answer)
