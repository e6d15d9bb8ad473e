"""ListTransactions (key 66), versions 0-2: the transactional ids that this broker coordinates (KIP-664). Nothing is
left out.

There are filters for states, producer ids, a minimum duration (version 1), and a pattern for the whole id (version 2,
KIP-1152). As in Kafka, RE2 matches the pattern. Its time is linear, so no client can stall a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import re2

from broker.coordinator.transactions.metadata import Transaction
from broker.coordinator.transactions.types import TransactionState
from broker.node.coordination.transactions import KEY_TYPE
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest
from broker.node.process.clock import wall_ms
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import field_or, response

if TYPE_CHECKING:
    from broker.wire.shapes import list_transactions as shapes

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False  # the client is told the error
_LABELS = {state.label for state in TransactionState}


def handle(services: Services, request: AnyRequest[shapes.ListTransactionsRequest]) -> None:
    message, host = request.message, services.coordinators[KEY_TYPE]
    unknown = [each for each in dict.fromkeys(message.state_filters) if each not in _LABELS]
    error = ErrorCode.coordinator_load_in_progress if host.is_loading() else ErrorCode.none
    text, pattern = field_or(message, "transactional_id_pattern", None) or "", None
    try:
        pattern = re2.compile(text, _OPTIONS) if text else None
    except re2.error:
        error = ErrorCode.invalid_regular_expression
    states: list[shapes.TransactionStateFields] = []
    if error is ErrorCode.none:
        duration_ms = field_or(message, "duration_filter", -1)
        for _, shard in host.active_shards():
            states += [
                _listed(each)
                for each in shard.transactions()
                if _is_wanted(each, set(message.state_filters), set(message.producer_id_filters), duration_ms)
                and (pattern is None or pattern.fullmatch(each.transactional_id))
            ]
    request.respond(
        response(
            ApiKey.LIST_TRANSACTIONS,
            request.version,
            error_code=error,
            unknown_state_filters=unknown if error is ErrorCode.none else [],
            transaction_states=states,
        )
    )


def _is_wanted(each: Transaction, labels: set[str], producer_ids: set[int], duration_ms: int) -> bool:
    if labels and each.state.label not in labels:
        return False
    if producer_ids and each.producer_id not in producer_ids:
        return False
    # A transaction that never began has -1 as its start time, so it passes every minimum duration, as in Kafka.
    return duration_ms < 0 or wall_ms() - each.start_ms > duration_ms


def _listed(each: Transaction) -> shapes.TransactionStateFields:
    return {
        "transactional_id": each.transactional_id,
        "producer_id": each.producer_id,
        "transaction_state": each.state.label,
    }
