"""AddOffsetsToTxn (key 25), versions 0-4: adds the offsets of a group to a transaction (KIP-98). Nothing is left out.

The group's partition of `__consumer_offsets` is added to the transaction like any other partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinator.transactions.types import LEGACY_VERSION, AddPartitions, PartitionsResult
from broker.node.coordination.transactions import KEY_TYPE, client_error
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest, guarded
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import add_offsets_to_txn as shapes

GROUPS = 0  # the key type in FindCoordinator
FENCED_SINCE_VERSION = 2


def handle(services: Services, request: AnyRequest[shapes.AddOffsetsToTxnRequest]) -> None:
    groups = services.coordinators.get(GROUPS)
    if not request.message.transactional_id:
        _answer(request, ErrorCode.invalid_request)
    elif groups is None:
        _answer(request, ErrorCode.coordinator_not_available)
    elif groups.partition_of(request.message.group_id) is None:
        services.serve(request, _make_topic_then_add(services, request))
    else:
        _add(services, request)


async def _make_topic_then_add(services: Services, request: AnyRequest[shapes.AddOffsetsToTxnRequest]) -> None:
    if await services.coordinators[GROUPS].ensure_topic() is None:
        _add(services, request)
    else:
        _answer(request, ErrorCode.coordinator_not_available)


def _add(services: Services, request: AnyRequest[shapes.AddOffsetsToTxnRequest]) -> None:
    message, groups = request.message, services.coordinators[GROUPS]
    partition = groups.partition_of(message.group_id)
    if partition is None:
        _answer(request, ErrorCode.coordinator_not_available)
        return
    partitions = frozenset({(groups.topic.name, partition)})

    def done(result: object) -> None:
        assert isinstance(result, PartitionsResult)
        _answer(request, client_error(result.error_code, has_fenced=request.version >= FENCED_SINCE_VERSION))

    services.coordinators[KEY_TYPE].call(
        message.transactional_id,
        lambda token: AddPartitions(
            token=token,
            transactional_id=message.transactional_id,
            producer_id=message.producer_id,
            producer_epoch=message.producer_epoch,
            partitions=partitions,
            transaction_version=LEGACY_VERSION,
        ),
        done=guarded(request, done),
        refused=guarded(request, lambda error: _answer(request, client_error(error))),
    )


def _answer(request: AnyRequest[shapes.AddOffsetsToTxnRequest], error: ErrorCode) -> None:
    request.respond(response(ApiKey.ADD_OFFSETS_TO_TXN, request.version, error_code=error))
