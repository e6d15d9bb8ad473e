"""The admin of transactions (KIP-664), as `Admin.transactions`. It lists transactions, shows what a producer has open,
and ends a transaction that its coordinator has forgotten.

Shown by tests/broker_client/test_client_transactions.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from broker.client.blocking import BlockingClient
from broker.client.clock import now_ms
from broker.client.coordinators import find_coordinator
from broker.client.core.batch import TopicPartition
from broker.client.core.errors import KafkaError, first_of, first_partition
from broker.client.question import Question, raise_error
from broker.client.questions import TRANSACTION
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request, to_ms

if TYPE_CHECKING:
    from broker.wire.shapes.describe_producers import (
        DescribeProducersRequest,
        DescribeProducersResponse,
        TopicRequestFields,
    )
    from broker.wire.shapes.describe_transactions import DescribeTransactionsRequest
    from broker.wire.shapes.list_transactions import ListTransactionsRequest, TransactionState
    from broker.wire.shapes.write_txn_markers import (
        WritableTxnMarkerFields,
        WriteTxnMarkersRequest,
        WriteTxnMarkersResponse,
    )

_EPOCH_MAX = 2**15 - 1  # the largest producer epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    producer_id: int
    state: str
    coordinator: int  # broker id


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDescription:
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerDescription:
    """A field is -1 where the broker has no value."""

    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int


class TransactionAdmin:
    def __init__(self, client: BlockingClient, timeout_ms: int) -> None:
        self._client = client
        self._timeout_ms = timeout_ms

    def list(self, states: Sequence[str] = (), pattern: str = "") -> dict[str, TransactionListing]:
        """The transactions of all coordinators, by transactional id. `states` (e.g. "Ongoing") and the pattern select
        some of them."""
        deadline_ms = self._deadline_ms()

        def build(version: int) -> ListTransactionsRequest:
            return request(
                ApiKey.LIST_TRANSACTIONS,
                version,
                state_filters=states,
                producer_id_filters=(),
                duration_filter=-1,
                transactional_id_pattern=pattern or None,
            )

        def ask(node: int) -> list[TransactionState]:
            answer = self._client.call(node, ApiKey.LIST_TRANSACTIONS, build, deadline_ms)
            raise_error(answer.error_code, None, f"transactions of broker {node}")
            if answer.unknown_state_filters:
                raise KafkaError(-1, f"no such state: {', '.join(answer.unknown_state_filters)}", name="LOCAL_STATE")
            return [*answer.transaction_states]

        found = {}
        for broker in self._client.fetch_metadata([], deadline_ms).brokers:
            for each in self._client.retrying(partial(ask, broker.broker_id), deadline_ms):
                found[each.transactional_id] = TransactionListing(
                    producer_id=each.producer_id, state=each.transaction_state, coordinator=broker.broker_id
                )
        return found

    def describe(self, transactional_id: str) -> TransactionDescription:
        """The transaction as its coordinator knows it. Raises TRANSACTIONAL_ID_NOT_FOUND if the coordinator knows no
        such id."""
        deadline_ms = self._deadline_ms()

        def build(version: int) -> DescribeTransactionsRequest:
            return request(ApiKey.DESCRIBE_TRANSACTIONS, version, transactional_ids=[transactional_id])

        def ask() -> TransactionDescription:
            node = find_coordinator(self._client, TRANSACTION, transactional_id, deadline_ms)
            states = self._client.call(node, ApiKey.DESCRIBE_TRANSACTIONS, build, deadline_ms).transaction_states
            answer = first_of(states)
            raise_error(answer.error_code, None, f"transactional id {transactional_id!r}")
            return TransactionDescription(
                coordinator=node,
                state=answer.transaction_state,
                producer_id=answer.producer_id,
                producer_epoch=answer.producer_epoch,
                timeout_ms=to_ms(answer.transaction_timeout),
                partitions=frozenset(
                    TopicPartition(topic.topic, index) for topic in answer.topics for index in topic.partitions
                ),
            )

        return self._client.retrying(ask, deadline_ms)

    def describe_producers(self, partition: TopicPartition) -> dict[int, ProducerDescription]:
        """What the partition's leader remembers of each producer id. An open transaction there holds back consumers
        that read committed records."""
        chosen = TopicPartition(*partition)

        def build(version: int) -> DescribeProducersRequest:
            topics: list[TopicRequestFields] = [{"name": chosen.topic, "partition_indexes": [chosen.partition]}]
            return request(ApiKey.DESCRIBE_PRODUCERS, version, topics=topics)

        def parse(message: DescribeProducersResponse) -> dict[int, ProducerDescription]:
            answer = first_partition(message.topics)
            raise_error(answer.error_code, answer.error_message, f"{chosen.topic}-{chosen.partition}")
            return {
                each.producer_id: ProducerDescription(
                    producer_epoch=each.producer_epoch,
                    last_sequence=each.last_sequence,
                    last_timestamp_ms=each.last_timestamp,
                    coordinator_epoch=each.coordinator_epoch,
                    transaction_start_offset=each.current_txn_start_offset,
                )
                for each in answer.active_producers
            }

        question = Question(ApiKey.DESCRIBE_PRODUCERS, build, parse)
        return self._client.ask_leader(chosen, lambda _: question, self._deadline_ms())

    def abort_hanging(self, partition: TopicPartition, producer_id: int) -> None:
        """Write an abort marker for a transaction that its coordinator no longer knows (`describe_producers` shows it).

        Never use it for a transaction that the coordinator still has. The coordinator's own marker would come later and
        end the next transaction.
        """
        chosen = TopicPartition(*partition)
        where = f"{chosen.topic}-{chosen.partition}"
        producer = self.describe_producers(chosen).get(producer_id)
        if producer is None or producer.transaction_start_offset < 0:
            raise KafkaError(ErrorCode.invalid_txn_state, f"producer {producer_id} has no transaction in {where}")
        # The epoch is a wider integer in DescribeProducers than in a marker.
        if not 0 <= producer.producer_epoch <= _EPOCH_MAX:
            text = f"producer {producer_id} in {where}: epoch {producer.producer_epoch}, expected 0 to {_EPOCH_MAX}"
            raise KafkaError(ErrorCode.invalid_producer_epoch, text)

        def build(version: int) -> WriteTxnMarkersRequest:
            marker: WritableTxnMarkerFields = {
                "producer_id": producer_id,
                "producer_epoch": producer.producer_epoch,
                "transaction_result": False,
                "topics": [{"name": chosen.topic, "partition_indexes": [chosen.partition]}],
                "coordinator_epoch": max(0, producer.coordinator_epoch),
            }
            return request(ApiKey.WRITE_TXN_MARKERS, version, markers=[marker])

        def parse(message: WriteTxnMarkersResponse) -> None:
            code = first_partition(first_of(message.markers).topics).error_code
            raise_error(code, None, f"marker in {where}")

        question = Question(ApiKey.WRITE_TXN_MARKERS, build, parse)
        self._client.ask_leader(chosen, lambda _: question, self._deadline_ms())

    def _deadline_ms(self) -> int:
        return now_ms() + self._timeout_ms
