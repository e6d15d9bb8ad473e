"""The requests of a transactional producer to its coordinators. They run in the caller's thread, with a blocking client
of their own beside the sender thread.

Owns: finding the coordinator of the transactional id and of groups, repeating retriable requests until the deadline,
and the version of the protocol. With transaction.version 2 (KIP-890 part 2) partitions need no request of their own,
and the end of each transaction brings the next epoch. The sender thread sends the records. Only one call runs at a time
(under `lock`).
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Mapping
from time import monotonic_ns
from typing import TYPE_CHECKING

from broker.client import native
from broker.client.blocking import Answer, BlockingClient, Build
from broker.client.clock import now_ms
from broker.client.coordinators import find_coordinator
from broker.client.core.batch import TopicPartition
from broker.client.core.config import ProducerConfig
from broker.client.core.errors import KafkaError, TimedOutError
from broker.client.core.transactions import (
    GroupMetadata,
    OffsetAndMetadata,
    Reaction,
    TransactionCore,
    TransactionState,
    reaction_to,
)
from broker.client.group_requests import commit_entries
from broker.client.protocol import by_topic
from broker.client.questions import GROUP, TRANSACTION
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request

if TYPE_CHECKING:
    from broker.wire.shapes.add_offsets_to_txn import AddOffsetsToTxnRequest
    from broker.wire.shapes.add_partitions_to_txn import AddPartitionsToTxnRequest
    from broker.wire.shapes.end_txn import EndTxnRequest, EndTxnResponse
    from broker.wire.shapes.init_producer_id import InitProducerIdRequest
    from broker.wire.shapes.txn_offset_commit import TxnOffsetCommitRequest

FEATURE = "transaction.version"
LEGACY_END_VERSION = 4
LEGACY_OFFSETS_VERSION = 4


class TransactionClient:
    """`core` has the state. If a method raises KafkaError, it has first changed the state as the error requires."""

    def __init__(self, config: ProducerConfig, rng: random.Random) -> None:
        self._config = config
        self._client = BlockingClient(config, rng)
        self._coordinators: dict[tuple[int, str], int] = {}
        self.core = TransactionCore()
        self.lock = native.new_lock()
        # Of the transaction that is being ended. A call that timed out is repeated, and goes on from here.
        self._had_failures = False
        self._is_decided = False  # EndTxn was answered
        self._spent_ns = dict.fromkeys(("init", "begin", "send-offsets", "commit", "abort"), 0)

    def metrics(self) -> dict[str, float]:
        """Under Kafka's names: the time that callers have spent in each call."""
        return {f"txn-{call}-time-ns-total": float(spent) for call, spent in self._spent_ns.items()}

    @contextlib.contextmanager
    def call(self, name: str) -> Iterator[None]:
        """Runs a call under the lock and measures its time, including the wait for the lock."""
        began_ns = monotonic_ns()
        with self.lock:
            try:
                yield
            finally:
                self._spent_ns[name] += monotonic_ns() - began_ns

    def close(self) -> None:
        self._client.close()

    # -- the life of the producer ------------------------------------------------------------------------------------

    def initialise(self, deadline_ms: int) -> None:
        core = self.core
        if core.state is not TransactionState.UNINITIALISED:
            core.move(TransactionState.UNINITIALISED, call="init_transactions()")
        self._init_producer_id(deadline_ms, known=(-1, -1))

    def _init_producer_id(self, deadline_ms: int, *, known: tuple[int, int]) -> None:
        def build(version: int) -> InitProducerIdRequest:
            return request(
                ApiKey.INIT_PRODUCER_ID,
                version,
                transactional_id=self._config.transactional_id,
                transaction_timeout=self._config.transaction_timeout_ms,
                producer_id=known[0],
                producer_epoch=known[1],
            )

        answer = self._ask(TRANSACTION, self._config.transactional_id, ApiKey.INIT_PRODUCER_ID, build, deadline_ms)
        self.core.initialised(answer.producer_id, answer.producer_epoch, self._version())

    def _version(self) -> int:
        """transaction.version of the cluster, as the transaction coordinator has told it."""
        return self._client.network.feature(self._coordinators[(TRANSACTION, self._config.transactional_id)], FEATURE)

    def add(self, partition: TopicPartition, deadline_ms: int) -> None:
        """Adds the partition to the transaction. It is called before the first record for this partition."""
        core = self.core
        refusal = core.refusal_of_send()  # the transaction may have ended while this call waited for the lock
        if refusal is not None:
            raise refusal
        if partition in core.partitions:
            return
        if not core.is_bumping:

            def build(version: int) -> AddPartitionsToTxnRequest:
                return request(
                    ApiKey.ADD_PARTITIONS_TO_TXN,
                    version,
                    v3_and_below_transactional_id=self._config.transactional_id,
                    v3_and_below_producer_id=core.producer_id,
                    v3_and_below_producer_epoch=core.producer_epoch,
                    v3_and_below_topics=[{"name": partition.topic, "partitions": [partition.partition]}],
                )

            self._ask(TRANSACTION, self._config.transactional_id, ApiKey.ADD_PARTITIONS_TO_TXN, build, deadline_ms)
        core.partitions.add(partition)

    def add_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata, deadline_ms: int
    ) -> None:
        """Adds these offsets to the transaction. They are committed when the transaction commits."""
        core = self.core
        refusal = core.refusal_of_send()
        if refusal is not None:
            raise refusal
        if not core.is_bumping:

            def build_add(version: int) -> AddOffsetsToTxnRequest:
                return request(
                    ApiKey.ADD_OFFSETS_TO_TXN,
                    version,
                    transactional_id=self._config.transactional_id,
                    producer_id=core.producer_id,
                    producer_epoch=core.producer_epoch,
                    group_id=group.group_id,
                )

            self._ask(TRANSACTION, self._config.transactional_id, ApiKey.ADD_OFFSETS_TO_TXN, build_add, deadline_ms)
        core.has_offsets = True

        def build(version: int) -> TxnOffsetCommitRequest:
            return request(
                ApiKey.TXN_OFFSET_COMMIT,
                version,
                transactional_id=self._config.transactional_id,
                group_id=group.group_id,
                producer_id=core.producer_id,
                producer_epoch=core.producer_epoch,
                generation_id=group.generation_id,
                member_id=group.member_id,
                group_instance_id=group.group_instance_id,
                topics=[
                    {"name": name, "partitions": asked} for name, asked in by_topic(commit_entries(offsets)).items()
                ],
            )

        highest = None if core.is_bumping else LEGACY_OFFSETS_VERSION
        self._ask(GROUP, group.group_id, ApiKey.TXN_OFFSET_COMMIT, build, deadline_ms, highest=highest)

    def end(self, *, is_commit: bool, deadline_ms: int, had_failures: bool) -> None:
        """Ends the transaction. The state is COMMITTING or ABORTING. After a timeout it is still the same, and the call
        may be repeated. Then it goes on with the request that had no answer."""
        self._had_failures |= had_failures
        self._end(deadline_ms, is_commit=is_commit)
        self._had_failures = self._is_decided = False

    def _end(self, deadline_ms: int, *, is_commit: bool) -> None:
        core = self.core
        if not core.has_anything:
            core.ended(core.producer_id, core.producer_epoch)
            return
        if not self._is_decided:
            answer = self._end_txn(deadline_ms, is_commit=is_commit)
            if core.is_bumping:
                core.ended(answer.producer_id, answer.producer_epoch)
                return
            self._is_decided = True
            if not self._had_failures:
                core.ended(core.producer_id, core.producer_epoch)
                return
        # It is not certain which sequences the brokers expect. In the next epoch they begin at 0 (KIP-360).
        self._init_producer_id(deadline_ms, known=(core.producer_id, core.producer_epoch))

    def _end_txn(self, deadline_ms: int, *, is_commit: bool) -> EndTxnResponse:
        core = self.core

        def build(version: int) -> EndTxnRequest:
            return request(
                ApiKey.END_TXN,
                version,
                transactional_id=self._config.transactional_id,
                producer_id=core.producer_id,
                producer_epoch=core.producer_epoch,
                committed=is_commit,
            )

        highest = None if core.is_bumping else LEGACY_END_VERSION
        answer: EndTxnResponse = self._ask(
            TRANSACTION, self._config.transactional_id, ApiKey.END_TXN, build, deadline_ms, highest=highest
        )
        return answer

    # -- asking ------------------------------------------------------------------------------------------------------

    def _ask(
        self,
        key_type: int,
        key: str,
        api_key: ApiKey,
        build: Build[Answer],
        deadline_ms: int,
        *,
        highest: int | None = None,
    ) -> Answer:
        """Returns the answer if it has no error. A TimedOutError leaves the state unchanged. Before any other
        KafkaError is raised, the core changes its state."""
        last: KafkaError | None = None
        while True:
            if now_ms() >= deadline_ms:
                because = f"; last failure: {last}" if last is not None else ""
                raise TimedOutError(f"{api_key.name} of {key!r}: no success in time{because}", definite=False)
            try:
                node = self._coordinator(key_type, key, deadline_ms)
                attempt_ms = min(deadline_ms, now_ms() + self._config.request_timeout_ms)
                answer = self._client.call(node, api_key, build, attempt_ms, highest=highest)
            except TimedOutError as error:
                last = error
                self._coordinators.pop((key_type, key), None)
                continue
            except KafkaError as error:
                last = error
            else:
                code = _first_error(answer)
                if code is ErrorCode.none:
                    return answer
                last = KafkaError(code, f"{api_key.name} of {key!r}")
            match reaction_to(last.code):
                case Reaction.FIND_AGAIN:
                    self._coordinators.pop((key_type, key), None)
                case Reaction.ASK_AGAIN:
                    pass
                case _:
                    self.core.fail(last)
                    raise last
            self._client.pause(min(self._config.retry_backoff_ms, max(0, deadline_ms - now_ms())))

    def _coordinator(self, key_type: int, key: str, deadline_ms: int) -> int:
        node = self._coordinators.get((key_type, key))
        if node is not None:
            return node

        node = find_coordinator(self._client, key_type, key, deadline_ms)
        self._coordinators[(key_type, key)] = node
        return node


def _first_error(answer: object) -> ErrorCode:
    """The error of the whole answer, or else the first one among topics and partitions. OPERATION_NOT_ATTEMPTED is
    skipped: such a partition failed only because of another one."""
    code: ErrorCode = getattr(answer, "error_code", ErrorCode.none)
    codes = [code]
    for topic in getattr(answer, "results_by_topic_v3_and_below", ()):
        codes += [each.partition_error_code for each in topic.results_by_partition]
    for topic in getattr(answer, "topics", ()):
        codes += [each.error_code for each in topic.partitions]
    errors = [each for each in codes if each not in (ErrorCode.none, ErrorCode.operation_not_attempted)]
    return errors[0] if errors else ErrorCode.none
