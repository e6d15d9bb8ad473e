"""InitProducerId (key 22), versions 0-5: ids for idempotent and transactional producers.

Without a transactional id any broker answers, and always with a new id, because an idempotent producer raises its epoch
itself. With a transactional id its coordinator raises the epoch, which fences the predecessor (KIP-98, KIP-360). Not
done: two-phase commit by the client (version 6, KIP-939).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinator.transactions.types import InitProducer, ProducerResult
from broker.node.coordination.transactions import client_error
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response, to_ms

if TYPE_CHECKING:
    from broker.wire.shapes import init_producer_id as shapes

FENCED_SINCE_VERSION = 4


def handle(services: Services, request: AnyRequest[shapes.InitProducerIdRequest]) -> None:
    message = request.message
    if (field_or(message, "producer_id", -1) == -1) != (field_or(message, "producer_epoch", -1) == -1):
        request.respond(_answer(request, ErrorCode.invalid_request, -1, -1))  # id and epoch must be given together
    elif message.transactional_id is not None:
        _init_transactional(services, request)
    else:
        services.serve(request, _fresh(services, request))


def _init_transactional(services: Services, request: AnyRequest[shapes.InitProducerIdRequest]) -> None:
    message = request.message

    def answer(result: ProducerResult) -> None:
        error = client_error(result.error_code, has_fenced=request.version >= FENCED_SINCE_VERSION)
        request.respond(_answer(request, error, result.producer_id, result.producer_epoch))

    transactional_id = message.transactional_id
    if not transactional_id:
        answer(ProducerResult(error_code=ErrorCode.invalid_request))
        return

    def make_event(token: int, fresh_producer_id: int | None) -> InitProducer:
        return InitProducer(
            token=token,
            transactional_id=transactional_id,
            timeout_ms=to_ms(message.transaction_timeout),
            producer_id=field_or(message, "producer_id", -1),
            producer_epoch=field_or(message, "producer_epoch", -1),
            fresh_producer_id=fresh_producer_id,
        )

    services.transactions.call_with_producer_id(transactional_id, make_event, answer)


async def _fresh(services: Services, request: AnyRequest[shapes.InitProducerIdRequest]) -> None:
    producer_id = await services.producer_ids.take()
    if producer_id is None:
        request.respond(_answer(request, ErrorCode.coordinator_load_in_progress, -1, -1))
    else:
        request.respond(_answer(request, ErrorCode.none, producer_id, 0))


def _answer(
    request: AnyRequest[shapes.InitProducerIdRequest], error: ErrorCode, producer_id: int, producer_epoch: int
) -> shapes.InitProducerIdResponse:
    return response(
        ApiKey.INIT_PRODUCER_ID,
        request.version,
        error_code=error,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
