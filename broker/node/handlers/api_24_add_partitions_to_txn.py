"""AddPartitionsToTxn (key 24), versions 0-5: adds partitions to a transaction; the first partition begins it.

Versions 0-3 come from clients, with one transaction each. Versions 4-5 come from partition leaders (KIP-890), with many
transactions at once. `verify_only` asks whether the client has added the partitions. Otherwise they are added, for a
client of transaction.version 2. Nothing is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker.coordinator.transactions.types import (
    EPOCH_BUMP_VERSION,
    LEGACY_VERSION,
    AddPartitions,
    PartitionsResult,
    TopicPartition,
    VerifyPartitions,
)
from broker.node.coordination.transactions import KEY_TYPE, client_error
from broker.node.handlers.services import Services
from broker.node.net.requests import AnyRequest, guarded
from broker.security.acls import Operation, ResourceType
from broker.security.authorizer import Access
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import response

if TYPE_CHECKING:
    from broker.wire.shapes import add_partitions_to_txn as shapes

BATCHED_SINCE_VERSION = 4
FENCED_SINCE_VERSION = 2


def handle(services: Services, request: AnyRequest[shapes.AddPartitionsToTxnRequest]) -> None:
    if request.version >= BATCHED_SINCE_VERSION:
        _Batch(services, request).start()
        return
    message = request.message
    transactional_id = message.v3_and_below_transactional_id
    partitions = _partitions(message.v3_and_below_topics)
    missing = _missing_errors(services, partitions, request.access)

    def answer(error_of: dict[TopicPartition, ErrorCode]) -> None:
        topics = _topic_results(message.v3_and_below_topics, error_of, tells_empty=not missing)
        request.respond(response(ApiKey.ADD_PARTITIONS_TO_TXN, request.version, results_by_topic_v3_and_below=topics))

    def done(result: object) -> None:
        assert isinstance(result, PartitionsResult)
        error = client_error(result.error_code, has_fenced=request.version >= FENCED_SINCE_VERSION)
        answer(dict.fromkeys(partitions, error))

    def refused(error: ErrorCode) -> None:
        answer(dict.fromkeys(partitions, client_error(error)))

    if missing:
        answer(missing)
    elif not transactional_id:
        refused(ErrorCode.invalid_request)
    else:
        services.coordinators[KEY_TYPE].call(
            transactional_id,
            lambda token: AddPartitions(
                token=token,
                transactional_id=transactional_id,
                producer_id=message.v3_and_below_producer_id,
                producer_epoch=message.v3_and_below_producer_epoch,
                partitions=partitions,
                transaction_version=LEGACY_VERSION,
            ),
            done=guarded(request, done),
            refused=guarded(request, refused),
        )


class _Batch:
    """The shard of each transaction answers for it. The request is answered when all transactions are."""

    def __init__(self, services: Services, request: AnyRequest[shapes.AddPartitionsToTxnRequest]) -> None:
        self._services, self._request = services, request
        self._results: list[shapes.AddPartitionsToTxnResultFields] = []
        self._waiting = 1

    def start(self) -> None:
        for transaction in self._request.message.transactions:
            self._waiting += 1
            self._handle(transaction)
        self._done()

    def _handle(self, transaction: shapes.AddPartitionsToTxnTransaction) -> None:
        partitions = _partitions(transaction.topics)
        result: shapes.AddPartitionsToTxnResultFields = {
            "transactional_id": transaction.transactional_id,
            "topic_results": [],
        }
        self._results.append(result)

        def finish(outcome: PartitionsResult) -> None:
            errors = {each: outcome.of(each) for each in partitions}
            is_adding = not transaction.verify_only
            result["topic_results"] = _topic_results(transaction.topics, errors, tells_empty=is_adding)
            self._done()

        def done(outcome: object) -> None:
            assert isinstance(outcome, PartitionsResult)
            finish(outcome)

        def make_event(token: int) -> AddPartitions | VerifyPartitions:
            if transaction.verify_only:
                return VerifyPartitions(
                    token=token,
                    transactional_id=transaction.transactional_id,
                    producer_id=transaction.producer_id,
                    producer_epoch=transaction.producer_epoch,
                    partitions=partitions,
                )
            return AddPartitions(
                token=token,
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                partitions=partitions,
                transaction_version=EPOCH_BUMP_VERSION,
            )

        missing = _missing_errors(self._services, partitions)
        if missing:
            result["topic_results"] = _topic_results(transaction.topics, missing, tells_empty=False)
            self._done()
            return
        if not transaction.transactional_id:
            finish(PartitionsResult(error_code=ErrorCode.invalid_request))
            return
        self._services.coordinators[KEY_TYPE].call(
            transaction.transactional_id,
            make_event,
            done=guarded(self._request, done),
            refused=guarded(self._request, lambda error: finish(PartitionsResult(error_code=client_error(error)))),
        )

    def _done(self) -> None:
        self._waiting -= 1
        if self._waiting == 0:
            version = self._request.version
            self._request.respond(response(ApiKey.ADD_PARTITIONS_TO_TXN, version, results_by_transaction=self._results))


def _missing_errors(
    services: Services, partitions: frozenset[TopicPartition], access: Access | None = None
) -> dict[TopicPartition, ErrorCode]:
    """The error of each partition. It is empty if all exist. A partition that does not exist, or that the client may
    not write to, makes its whole transaction fail."""
    image = services.metadata.image
    errors: dict[TopicPartition, ErrorCode] = {}
    for each in partitions:
        if access is not None and not access.may(Operation.WRITE, ResourceType.TOPIC, each[0]):
            errors[each] = ErrorCode.topic_authorization_failed
        elif image.partition(*each) is None:
            errors[each] = ErrorCode.unknown_topic_or_partition
    return {**dict.fromkeys(partitions, ErrorCode.operation_not_attempted), **errors} if errors else {}


def _partitions(topics: Iterable[shapes.AddPartitionsToTxnTopic]) -> frozenset[TopicPartition]:
    return frozenset((topic.name, index) for topic in topics for index in topic.partitions)


def _topic_results(
    topics: Iterable[shapes.AddPartitionsToTxnTopic], error_of: dict[TopicPartition, ErrorCode], *, tells_empty: bool
) -> list[shapes.AddPartitionsToTxnTopicResultFields]:
    """With `tells_empty` the result contains topics without partitions too. Kafka does so where it builds the answer
    from the request."""
    return [
        {
            "name": topic.name,
            "results_by_partition": [
                {"partition_index": index, "partition_error_code": error_of[(topic.name, index)]}
                for index in topic.partitions
            ],
        }
        for topic in topics
        if topic.partitions or tells_empty
    ]
