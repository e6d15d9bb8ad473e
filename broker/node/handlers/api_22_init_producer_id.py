"""InitProducerId (key 22), versions 0-5: ids for idempotent and transactional producers.

Without a transactional id any broker answers, always with a new id: an idempotent producer raises its epoch itself.
With one, its coordinator does, which fences the predecessor (KIP-98, KIP-360). Not done: two-phase commit by the client
(version 6, KIP-939).
"""

from __future__ import annotations

from broker.coordinator.transactions.types import InitProducer, ProducerResult
from broker.node.coordination.transactions import client_error
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message, response, to_ms

FENCED_SINCE_VERSION = 4


def handle(services: Services, request: AnyRequest) -> None:
    message = request.message
    if (getattr(message, "producer_id", -1) == -1) != (getattr(message, "producer_epoch", -1) == -1):
        request.respond(_answer(request, ErrorCode.invalid_request, -1, -1))  # an id has an epoch
    elif message.transactional_id is not None:
        _init_transactional(services, request)
    else:
        services.serve(request, _fresh(services, request))


def _init_transactional(services: Services, request: AnyRequest) -> None:
    message = request.message

    def answer(result: ProducerResult) -> None:
        error = client_error(result.error_code, has_fenced=request.version >= FENCED_SINCE_VERSION)
        request.respond(_answer(request, error, result.producer_id, result.producer_epoch))

    if not message.transactional_id:
        answer(ProducerResult(error_code=ErrorCode.invalid_request))
        return

    def make_event(token: int, fresh_producer_id: int | None) -> InitProducer:
        return InitProducer(
            token=token,
            transactional_id=message.transactional_id,
            timeout_ms=to_ms(message.transaction_timeout),
            producer_id=getattr(message, "producer_id", -1),
            producer_epoch=getattr(message, "producer_epoch", -1),
            fresh_producer_id=fresh_producer_id,
        )

    services.transactions.call_with_producer_id(message.transactional_id, make_event, answer)


async def _fresh(services: Services, request: AnyRequest) -> None:
    producer_id = await services.producer_ids.take()
    if producer_id is None:
        request.respond(_answer(request, ErrorCode.coordinator_load_in_progress, -1, -1))
    else:
        request.respond(_answer(request, ErrorCode.none, producer_id, 0))


def _answer(request: AnyRequest, error: ErrorCode, producer_id: int, producer_epoch: int) -> Message:
    return response(
        ApiKey.INIT_PRODUCER_ID,
        request.version,
        error_code=error,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
