"""InitProducerId (key 22), versions 0-5: ids for idempotent producers.

With a producer id (version 3+) its epoch grows by one, and at the end of epochs a new id is given. Not done:
transactional ids, answered with COORDINATOR_NOT_AVAILABLE as FindCoordinator does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.node.control import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message, response

if TYPE_CHECKING:
    from broker.node.broker import Broker

PRODUCER_EPOCH_MAX = 2**15 - 2


def handle(broker: Broker, request: AnyRequest) -> None:
    if request.message.transactional_id is not None:
        request.respond(_answer(request, ErrorCode.coordinator_not_available, -1, -1))
        return
    known_id = getattr(request.message, "producer_id", -1)
    known_epoch = getattr(request.message, "producer_epoch", -1)
    if known_id >= 0 and 0 <= known_epoch < PRODUCER_EPOCH_MAX:
        request.respond(_answer(request, ErrorCode.none, known_id, known_epoch + 1))
        return
    broker.spawn(_fresh(broker, request))


async def _fresh(broker: Broker, request: AnyRequest) -> None:
    producer_id = await broker.producer_ids.take()
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
