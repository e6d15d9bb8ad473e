"""EndTxn (key 26), versions 0-5: commits or aborts a transaction. Since version 5 every end bumps the epoch (KIP-890
part 2). Nothing is left out.

The answer is sent when the decision is committed. The markers follow later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinator.transactions.types import (
    EPOCH_BUMP_VERSION,
    LEGACY_VERSION,
    EndTransaction,
    ProducerResult,
)
from broker.node.coordination.transactions import client_error
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import end_txn as shapes

EPOCH_BUMP_SINCE_VERSION = 5
FENCED_SINCE_VERSION = 2


def handle(services: Services, request: AnyRequest[shapes.EndTxnRequest]) -> None:
    message = request.message

    def answer(result: ProducerResult) -> None:
        error = client_error(result.error_code, has_fenced=request.version >= FENCED_SINCE_VERSION)
        request.respond(
            response(
                ApiKey.END_TXN,
                request.version,
                error_code=error,
                producer_id=result.producer_id,
                producer_epoch=result.producer_epoch,
            )
        )

    if not message.transactional_id:
        answer(ProducerResult(error_code=ErrorCode.invalid_request))
        return
    is_bumping = request.version >= EPOCH_BUMP_SINCE_VERSION

    def make_event(token: int, fresh_producer_id: int | None) -> EndTransaction:
        return EndTransaction(
            token=token,
            transactional_id=message.transactional_id,
            producer_id=message.producer_id,
            producer_epoch=message.producer_epoch,
            is_commit=message.committed,
            transaction_version=EPOCH_BUMP_VERSION if is_bumping else LEGACY_VERSION,
            fresh_producer_id=fresh_producer_id,
        )

    services.transactions.call_with_producer_id(message.transactional_id, make_event, answer)
