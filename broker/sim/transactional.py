"""Simulated transactional producers: what a client does between InitProducerId and EndTxn, and where it may die.

They use both protocols. With transaction version 1 they add their partitions themselves. With version 2 (KIP-890)
Produce and TxnOffsetCommit add them, and each end of a transaction gives the next epoch. A producer may die at any
step. Its successor fences it, but a producer that did not die may continue as a zombie. `transaction_checker` has the
invariants.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from broker.sim.clients import SimClient
from broker.sim.coordinator_client import GROUP, TRANSACTION, CoordinatorClient, Place, error_code
from broker.sim.coverage import Coverage
from broker.sim.invariants.invariant import Fail
from broker.sim.invariants.transactions import OffsetsAreAPartOfTheirTransaction
from broker.sim.partition_truth import Key
from broker.sim.transaction_checker import TransactionChecker
from broker.sim.transactions_seen import Attempt
from broker.wire.apis import ApiKey
from broker.wire.batch_encoder import encode_batch
from broker.wire.errors import ErrorCode
from broker.wire.messages import request

if TYPE_CHECKING:
    from broker.wire.shapes.add_partitions_to_txn import AddPartitionsToTxnResponse
    from broker.wire.shapes.kinds import Asks
    from broker.wire.shapes.offset_fetch import OffsetFetchResponse
    from broker.wire.shapes.produce import ProduceResponse
    from broker.wire.shapes.txn_offset_commit import (
        TxnOffsetCommitRequestPartitionFields,
        TxnOffsetCommitResponse,
    )

Reply = TypeVar("Reply")

FENCED = frozenset({ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch, ErrorCode.invalid_producer_id_mapping})
BUSY = frozenset({ErrorCode.concurrent_transactions, ErrorCode.unstable_offset_commit})
PRODUCE_AGAIN = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.request_timed_out,
        ErrorCode.concurrent_transactions,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.network_exception,
    }
)
APPENDED = frozenset({ErrorCode.none, ErrorCode.duplicate_sequence_number})
STEP_LIMIT_S = 1.5  # then the incarnation ends, and the InitProducerId of the next one settles the transaction
OFFSET_FETCH_VERSION = 8


class TransactionalProducer:
    """`run` continues until `is_over`. Several incarnations may run at once, because zombies continue."""

    def __init__(
        self,
        *,
        name: str,
        client: SimClient,
        topic: str,
        partitions: int,
        leader_of: Callable[[Key], int],
        coordinator_of: Callable[[int, str], Place],
        rng: random.Random,
        checker: TransactionChecker,
        coverage: Coverage,
        fail: Fail,
    ) -> None:
        self.name, self.is_over = name, False
        self._client, self._topic, self._partitions, self._leader_of = client, topic, partitions, leader_of
        self._coordinator_of = coordinator_of
        self._rng, self._checker, self._coverage = rng, checker, coverage
        self._offsets_belong = OffsetsAreAPartOfTheirTransaction(fail)
        self._group = f"offsets-of-{name}"
        self.zombies: list[asyncio.Future[None]] = []  # tasks of successors whose predecessor still runs
        self._incarnations = 0
        self._attempts = 0

    def _coordinator(self, kind: int, key: str) -> CoordinatorClient:
        return CoordinatorClient(client=self._client, kind=kind, key=key, rng=self._rng, truth=self._coordinator_of)

    async def run(self) -> None:
        while not self.is_over:
            await _Incarnation.next_of(self).run()
            await asyncio.sleep(self._rng.uniform(0.01, 0.15))

    def next_incarnation(self) -> int:
        self._incarnations += 1
        return self._incarnations

    def next_attempt(self, incarnation: int, *, bumps_epoch: bool) -> Attempt:
        self._attempts += 1
        name = f"{self.name}:{incarnation}:{self._attempts}"
        attempt = Attempt(name=name, number=self._attempts, bumps_epoch=bumps_epoch)
        self._checker.attempts.append(attempt)
        return attempt

    async def check_offset(self) -> None:
        """Check at the end that the group has the offset of the last committed transaction with an offset."""
        message = request(
            ApiKey.OFFSET_FETCH,
            OFFSET_FETCH_VERSION,
            groups=[{"group_id": self._group, "topics": [{"name": self._topic, "partition_indexes": [0]}]}],
            require_stable=True,
        )
        coordinator = self._coordinator(GROUP, self._group)

        def error_of(answer: OffsetFetchResponse) -> ErrorCode:
            group = answer.groups[0]
            code = group.error_code
            return code if code is not ErrorCode.none else group.topics[0].partitions[0].error_code

        limit_s = coordinator.now_s() + 5
        answer = await coordinator.ask(
            ApiKey.OFFSET_FETCH, OFFSET_FETCH_VERSION, message, error_of, deadline_s=limit_s, repeats=BUSY
        )
        found = None if answer is None else answer.groups[0].topics[0].partitions[0].committed_offset
        self._offsets_belong.check(self._group, found=found, expected=self._checker.committed_offset(self.name))


class _Incarnation:
    def __init__(self, owner: TransactionalProducer, number: int) -> None:
        self._owner, self._number, self._rng = owner, number, owner._rng
        self._transactions = owner._coordinator(TRANSACTION, owner.name)
        self._groups = owner._coordinator(GROUP, owner._group)
        self._bumps_epoch = owner._rng.random() < 0.5  # transaction version 2
        self._producer = (-1, -1)
        self._sequences: dict[Key, int] = {}
        self._records = 0

    @classmethod
    def next_of(cls, owner: TransactionalProducer) -> _Incarnation:
        return cls(owner, owner.next_incarnation())

    def _limit_s(self) -> float:
        return self._transactions.now_s() + STEP_LIMIT_S

    async def run(self) -> None:
        """Run until it is fenced, gives up, or dies."""
        if not await self._initialise():
            return
        while not self._owner.is_over:
            attempt = self._owner.next_attempt(self._number, bumps_epoch=self._bumps_epoch)
            if not await self._transact(attempt):
                return
            await asyncio.sleep(self._rng.uniform(0.0, 0.08))

    async def _transact(self, attempt: Attempt) -> bool:
        """Do one transaction. False: this incarnation ends here."""
        for _ in range(self._rng.choice((1, 2, 3))):
            key = (self._owner._topic, self._rng.randrange(self._owner._partitions))
            if not await self._produce(attempt, key):
                return False
            fate = self._rng.random()
            if fate < 0.03:
                return False  # it dies in the middle
            if fate < 0.08:
                await asyncio.sleep(self._rng.uniform(0.3, 1.6))  # perhaps until the transaction times out
            elif fate < 0.11:
                # Its successor begins, and this one becomes a zombie. Both continue until they are fenced or end.
                self._owner.zombies.append(asyncio.ensure_future(_Incarnation.next_of(self._owner).run()))
                await asyncio.sleep(self._rng.uniform(0.0, 0.4))
            else:
                await asyncio.sleep(self._rng.uniform(0.0, 0.03))
        if self._rng.random() < 0.5 and not await self._send_offsets(attempt):
            return False
        if self._rng.random() < 0.03:
            return False
        return await self._end(attempt, is_commit=self._rng.random() < 0.65)

    async def _initialise(self) -> bool:
        message = request(
            ApiKey.INIT_PRODUCER_ID,
            5 if self._bumps_epoch else 4,
            transactional_id=self._owner.name,
            transaction_timeout=self._rng.choice((500, 1_000, 2_500)),
        )
        version = 5 if self._bumps_epoch else 4
        answer = await self._transactions.ask(
            ApiKey.INIT_PRODUCER_ID, version, message, error_code, deadline_s=self._limit_s() + 1, repeats=BUSY
        )
        if answer is None or answer.error_code is not ErrorCode.none:
            return False
        self._producer, self._sequences = (answer.producer_id, answer.producer_epoch), {}
        return True

    async def _produce(self, attempt: Attempt, key: Key) -> bool:
        if not self._bumps_epoch and not await self._add_partition(key):
            return False
        identities = []
        for _ in range(self._rng.choice((1, 1, 2))):
            self._records += 1
            identities.append(f"{attempt.name}:{self._records}".encode())
        base_sequence = self._sequences.get(key, 0)
        batch = encode_batch(
            [identity + b" " + self._rng.randbytes(self._rng.randrange(1, 40)) for identity in identities],
            timestamps_ms=1_700_000_000_000,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            base_sequence=base_sequence,
            transactional=True,
        )
        self._owner._checker.sending(
            attempt, key, producer=self._producer, base_sequence=base_sequence, records=tuple(identities)
        )
        error = await self._send_batch(key, bytes(batch))
        if error in APPENDED:
            self._sequences[key] = base_sequence + len(identities)
            attempt.acked.update(identities)
            return True
        if error in FENCED:
            self._owner._coverage.reached("producer fenced")
        elif error is None and not self._bumps_epoch:
            # Clients of version 1 do this too: they abort and continue in the same epoch. The batch may still arrive.
            await self._end(attempt, is_commit=False)
        return False

    async def _send_batch(self, key: Key, batch: bytes) -> ErrorCode | None:
        """Send the same batch until an answer tells its outcome. None: no answer did."""
        client, version = self._owner._client, 12 if self._bumps_epoch else 11
        message = request(
            ApiKey.PRODUCE,
            version,
            transactional_id=self._owner.name,
            acks=-1,
            timeout=300,
            topic_data=[{"name": key[0], "partition_data": [{"index": key[1], "records": batch}]}],
        )
        limit_s = self._limit_s()
        while self._transactions.now_s() < limit_s:
            leader = self._owner._leader_of(key)
            answer: ProduceResponse | None = None
            if leader >= 0:
                answer = await client.ask(leader, ApiKey.PRODUCE, version, message)
            if answer is not None:
                error = answer.responses[0].partition_responses[0].error_code
                if error not in PRODUCE_AGAIN:
                    return error
            await asyncio.sleep(0.03)
        return None

    async def _add_partition(self, key: Key) -> bool:
        message = request(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            v3_and_below_transactional_id=self._owner.name,
            v3_and_below_producer_id=self._producer[0],
            v3_and_below_producer_epoch=self._producer[1],
            v3_and_below_topics=[{"name": key[0], "partitions": [key[1]]}],
        )

        def error_of(answer: AddPartitionsToTxnResponse) -> ErrorCode:
            return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

        return await self._told(ApiKey.ADD_PARTITIONS_TO_TXN, 3, message, error_of)

    async def _told(
        self, api_key: ApiKey, version: int, message: Asks[Reply], error_of: Callable[[Reply], ErrorCode]
    ) -> bool:
        """Ask the transaction coordinator. True if it agrees."""
        answer = await self._transactions.ask(
            api_key, version, message, error_of, deadline_s=self._limit_s(), repeats=BUSY
        )
        if answer is not None and error_of(answer) in FENCED:
            self._owner._coverage.reached("producer fenced")
        return answer is not None and error_of(answer) is ErrorCode.none

    async def _send_offsets(self, attempt: Attempt) -> bool:
        owner, version = self._owner, 5 if self._bumps_epoch else 4
        producer_id, producer_epoch = self._producer
        if not self._bumps_epoch:
            add = request(
                ApiKey.ADD_OFFSETS_TO_TXN,
                3,
                transactional_id=owner.name,
                group_id=owner._group,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
            )
            if not await self._told(ApiKey.ADD_OFFSETS_TO_TXN, 3, add, error_code):
                return False
        partition: TxnOffsetCommitRequestPartitionFields = {
            "partition_index": 0,
            "committed_offset": attempt.number,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        message = request(
            ApiKey.TXN_OFFSET_COMMIT,
            version,
            transactional_id=owner.name,
            group_id=owner._group,
            topics=[{"name": owner._topic, "partitions": [partition]}],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        # Set before the request is sent. If no answer comes, no commit is asked for, so only an abort can follow.
        attempt.offset = attempt.number
        answer = await self._groups.ask(
            ApiKey.TXN_OFFSET_COMMIT,
            version,
            message,
            _offset_error,
            deadline_s=self._limit_s(),
            repeats=BUSY | {ErrorCode.request_timed_out, ErrorCode.not_enough_replicas},
        )
        return answer is not None and _offset_error(answer) is ErrorCode.none

    async def _end(self, attempt: Attempt, *, is_commit: bool) -> bool:
        version = 5 if self._bumps_epoch else 4
        message = request(
            ApiKey.END_TXN,
            version,
            transactional_id=self._owner.name,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            committed=is_commit,
        )
        attempt.asked.add(is_commit)
        answer = await self._transactions.ask(
            ApiKey.END_TXN, version, message, error_code, deadline_s=self._limit_s(), repeats=BUSY
        )
        if answer is None:
            return False
        if answer.error_code is not ErrorCode.none:
            if answer.error_code in FENCED:
                self._owner._coverage.reached("producer fenced")
            return False
        self._owner._checker.end_answered(attempt, is_commit=is_commit)
        if self._bumps_epoch:
            self._producer, self._sequences = (answer.producer_id, answer.producer_epoch), {}
        return True


def _offset_error(answer: TxnOffsetCommitResponse) -> ErrorCode:
    return answer.topics[0].partitions[0].error_code
