"""Asks the transaction coordinator before this broker appends the first batch of a transaction to a partition
(KIP-890).

A client of transaction.version 1 has added the partition itself, and the question only verifies that. A client of
version 2 (Produce 12+, TxnOffsetCommit 5+) leaves that to the broker, and the question adds the partition. While the
question has no answer, further batches of the producer wait behind it in their order. All questions to one coordinator
from one wake-up of the event loop share a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from broker.coordinator.transactions.types import TopicPartition
from broker.log.verification import VerificationGuard
from broker.node.cluster.links import Links
from broker.node.net.channel import ChannelError
from broker.node.process.clock import monotonic_ms
from broker.node.process.logs import Logger
from broker.node.settings.sections.coordinators import TransactionSettings
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request

if TYPE_CHECKING:
    from broker.wire.shapes import add_partitions_to_txn as shapes

VERSION = 5
# open at the same time; further batches are refused with NOT_ENOUGH_REPLICAS, so that clients send them again
QUESTIONS_MAX = 100_000
QUESTIONS_PER_REQUEST_MAX = 1_000  # three elements each at most; limits.py has what a coordinator accepts
OVERTAKEN_MAX = 5
# There is no coordinator, or it is moving. Every client retries after the error that stands for these:
# NOT_ENOUGH_REPLICAS.
_LATER = frozenset(
    {
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
        ErrorCode.network_exception,
        ErrorCode.request_timed_out,
    }
)

Proceed: TypeAlias = Callable[[ErrorCode, VerificationGuard | None], None]
TakeGuard: TypeAlias = Callable[[], VerificationGuard | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(slots=True, kw_only=True, eq=False)
class _Question:
    """A question about one producer and one partition. `waiting` is in the order of arrival.

    Invariant: `guard` was taken before the question was sent. If a marker arrives before the answer, the marker removes
    the guard, and the question is asked again. So a late answer cannot allow a batch of a transaction that has ended.
    """

    producer: Producer
    partition: TopicPartition
    adds: bool
    deadline_ms: int
    guard: VerificationGuard
    take_guard: TakeGuard
    waiting: list[Proceed]
    overtaken: int = 0  # how often a marker arrived before the answer


class TransactionVerifier:
    def __init__(
        self,
        *,
        settings: TransactionSettings,
        request_timeout_ms: int,
        coordinator_of: Callable[[str], int],
        peers: Links,
        logger: Logger,
        spawn: Callable[..., object],
    ) -> None:
        """`coordinator_of(transactional id)` returns a broker id, or -1 while none is known."""
        self._settings, self._timeout_ms = settings, request_timeout_ms
        self._coordinator_of, self._peers = coordinator_of, peers
        self._logger, self._spawn = logger, spawn
        self._open: dict[tuple[Producer, TopicPartition], _Question] = {}
        self._due: list[_Question] = []

    def ask(
        self, producer: Producer, partition: TopicPartition, *, adds: bool, take_guard: TakeGuard, proceed: Proceed
    ) -> bool:
        """Calls `proceed(error, guard)` exactly once. The error `none` means that the partition is in the transaction.

        `take_guard` is begin_verification of the partition's log. If it finds the transaction ongoing, `proceed` is
        called at once and this returns False. Otherwise `proceed` is called with the answer, and this returns True.
        """
        question = self._open.get((producer, partition))
        if question is not None:
            question.waiting.append(proceed)
            return True
        guard = take_guard()
        if guard is None or len(self._open) >= QUESTIONS_MAX:
            proceed(ErrorCode.none if guard is None else ErrorCode.not_coordinator, None)
            return False
        question = _Question(
            producer=producer,
            partition=partition,
            adds=adds,
            deadline_ms=monotonic_ms() + self._settings.add_partitions_to_txn_retry_backoff_max_ms,
            guard=guard,
            take_guard=take_guard,
            waiting=[proceed],
        )
        self._open[(producer, partition)] = question
        self._enqueue(question)
        return True

    def _ask_again(self, question: _Question) -> None:
        guard = question.take_guard()
        if guard is None:
            self._answer(question, ErrorCode.none, None)
        else:
            question.guard = guard
            self._enqueue(question)

    def _enqueue(self, question: _Question) -> None:
        self._due.append(question)
        if len(self._due) == 1:
            self._spawn(self._flush())

    async def _flush(self) -> None:
        due, self._due = self._due, []
        by_coordinator: dict[int, list[_Question]] = {}
        for question in due:
            coordinator = self._coordinator_of(question.producer.transactional_id)
            by_coordinator.setdefault(coordinator, []).append(question)
        await asyncio.gather(
            *[
                self._send(broker_id, asked[first : first + QUESTIONS_PER_REQUEST_MAX])
                for broker_id, asked in by_coordinator.items()
                for first in range(0, len(asked), QUESTIONS_PER_REQUEST_MAX)
            ]
        )

    async def _send(self, broker_id: int, asked: list[_Question]) -> None:
        if broker_id < 0:
            self._answer_all(asked, ErrorCode.coordinator_not_available)
            return
        message = request(ApiKey.ADD_PARTITIONS_TO_TXN, VERSION, transactions=_transactions(asked))
        try:
            answer = await self._peers.call(
                broker_id, ApiKey.ADD_PARTITIONS_TO_TXN, VERSION, message, timeout_ms=self._timeout_ms
            )
        except ChannelError as failure:
            self._logger.warning("verification_unanswered", coordinator=broker_id, cause=repr(str(failure)))
            self._answer_all(asked, ErrorCode.network_exception)
            return
        errors = _errors(answer)
        for question in asked:
            topic, index = question.partition
            fallback = answer.error_code or ErrorCode.network_exception
            self._answered(question, errors.get((question.producer.transactional_id, topic, index), fallback))

    def _answered(self, question: _Question, error: ErrorCode) -> None:
        if error is ErrorCode.concurrent_transactions and question.adds and self._may_repeat(question):
            backoff_ms = self._settings.add_partitions_to_txn_retry_backoff_ms
            asyncio.get_running_loop().call_later(backoff_ms / 1000, self._ask_again, question)
            return
        if error is not ErrorCode.none:
            self._answer(question, error, None)
            return
        guard = question.take_guard()
        if guard is None or guard is question.guard:
            self._answer(question, ErrorCode.none, guard)
        elif question.overtaken < OVERTAKEN_MAX:
            question.overtaken += 1
            question.guard = guard
            self._enqueue(question)
        else:
            self._answer(question, ErrorCode.concurrent_transactions, None)

    def _may_repeat(self, question: _Question) -> bool:
        """Whether there is time to ask again. The markers of the last transaction are still being written. This does
        not take long, and another question is cheaper than a retry by the client."""
        return monotonic_ms() + self._settings.add_partitions_to_txn_retry_backoff_ms <= question.deadline_ms

    def _answer_all(self, questions: Iterable[_Question], error: ErrorCode) -> None:
        for question in questions:
            self._answer(question, error, None)

    def _answer(self, question: _Question, error: ErrorCode, guard: VerificationGuard | None) -> None:
        del self._open[(question.producer, question.partition)]
        for proceed in question.waiting:
            proceed(error, guard)


def produce_error(error: ErrorCode, version: int) -> ErrorCode:
    """The error for a client of Produce or TxnOffsetCommit. `version` is the version of Produce, or the equivalent
    one."""
    if error in _LATER:
        return ErrorCode.not_enough_replicas
    if error is ErrorCode.concurrent_transactions and version < PRODUCE_ADDS_SINCE_VERSION:
        return ErrorCode.not_enough_replicas  # the client knows this error and retries
    if error is ErrorCode.producer_fenced:
        return ErrorCode.invalid_producer_epoch
    if error is ErrorCode.transaction_abortable and version < ABORTABLE_SINCE_VERSION:
        return ErrorCode.invalid_txn_state
    return error


PRODUCE_ADDS_SINCE_VERSION = 12  # Produce: the broker adds the partition (KIP-890 part 2)
ABORTABLE_SINCE_VERSION = 11  # Produce: the client knows TRANSACTION_ABORTABLE


def _transactions(asked: list[_Question]) -> list[shapes.AddPartitionsToTxnTransactionFields]:
    grouped: dict[tuple[Producer, bool], dict[str, list[int]]] = {}
    for question in asked:
        topics = grouped.setdefault((question.producer, not question.adds), {})
        topic, index = question.partition
        topics.setdefault(topic, []).append(index)
    return [
        {
            "transactional_id": producer.transactional_id,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "verify_only": verifies_only,
            "topics": [{"name": name, "partitions": indexes} for name, indexes in topics.items()],
        }
        for (producer, verifies_only), topics in grouped.items()
    ]


def _errors(answer: shapes.AddPartitionsToTxnResponse) -> dict[tuple[str, str, int], ErrorCode]:
    return {
        (result.transactional_id, topic.name, partition.partition_index): partition.partition_error_code
        for result in answer.results_by_transaction
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }
