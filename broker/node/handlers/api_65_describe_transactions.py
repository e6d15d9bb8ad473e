"""DescribeTransactions (key 65), version 0: the coordinator's state of each transactional id (KIP-664). Nothing is left
out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from broker.coordinator.transactions.metadata import Transaction
from broker.coordinator.transactions.types import Describe
from broker.node.coordination.transactions import KEY_TYPE, client_error
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest, guarded
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import describe_transactions as shapes

_Note: TypeAlias = "Callable[[str, shapes.TransactionStateFields], None]"


def handle(services: Services, request: AnyRequest[shapes.DescribeTransactionsRequest]) -> None:
    transactional_ids = list(request.message.transactional_ids)
    found: dict[str, shapes.TransactionStateFields] = {}

    distinct = len(set(transactional_ids))

    def note(transactional_id: str, described: shapes.TransactionStateFields) -> None:
        found[transactional_id] = described
        if len(found) == distinct:
            states = [found[each] for each in transactional_ids]
            request.respond(response(ApiKey.DESCRIBE_TRANSACTIONS, request.version, transaction_states=states))

    if not transactional_ids:
        request.respond(response(ApiKey.DESCRIBE_TRANSACTIONS, request.version, transaction_states=[]))
    for transactional_id in dict.fromkeys(transactional_ids):
        _describe(services, request, transactional_id, note)


def _describe(
    services: Services, request: AnyRequest[shapes.DescribeTransactionsRequest], transactional_id: str, note: _Note
) -> None:
    def failed(error: ErrorCode) -> None:
        note(transactional_id, _failed(transactional_id, error))

    def done(result: object) -> None:
        if result is None:
            failed(ErrorCode.transactional_id_not_found)
        else:
            assert isinstance(result, Transaction)
            note(transactional_id, _described(result))

    if not transactional_id:
        failed(ErrorCode.invalid_request)
        return
    services.coordinators[KEY_TYPE].call(
        transactional_id,
        lambda token: Describe(token=token, transactional_id=transactional_id),
        done=guarded(request, done),
        refused=guarded(request, lambda error: failed(client_error(error))),
    )


def _failed(transactional_id: str, error: ErrorCode) -> shapes.TransactionStateFields:
    return {
        "error_code": error,
        "transactional_id": transactional_id,
        "transaction_state": "",
        "transaction_timeout": 0,
        "transaction_start_time": 0,
        "producer_id": 0,
        "producer_epoch": 0,
        "topics": [],
    }


def _described(transaction: Transaction) -> shapes.TransactionStateFields:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(index)
    return {
        "error_code": ErrorCode.none,
        "transactional_id": transaction.transactional_id,
        "transaction_state": transaction.state.label,
        "transaction_timeout": transaction.timeout_ms,
        "transaction_start_time": transaction.start_ms,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "topics": [{"topic": topic, "partitions": indexes} for topic, indexes in topics.items()],
    }
