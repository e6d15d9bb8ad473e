"""The questions of partition leaders to the transaction coordinator: order, retries, markers that come in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from broker.log.partition_log import PartitionLog
from broker.log.producers import Verdict
from broker.log.transactions import EndMarker
from broker.log.verification import VerificationGuard
from broker.node.coordination.verification import Producer, TransactionVerifier, produce_error
from broker.node.net.channel import ChannelError
from broker.node.settings.sections.coordinators import TransactionSettings
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message, response
from broker.wire.records import encode_batch

PARTITION = ("t", 0)
NONE, CONCURRENT = ErrorCode.none, ErrorCode.concurrent_transactions


class Rig:
    """A log, a verifier, and a coordinator that answers as scripted; what is asked is seen by `on_asked`."""

    def __init__(self, path: Path, *answers: ErrorCode | None, coordinator: int = 2, retry_ms: int = 30_000) -> None:
        self.log = PartitionLog(str(path / "t-0"), name="t-0")
        self.answers = list(answers)  # None: no answer
        self.asked: list[Message] = []
        self.appended: list[int] = []  # sequences, in the order of their append
        self.errors: dict[int, ErrorCode] = {}
        self.on_asked: Callable[[], None] = lambda: None
        self.tasks: list[asyncio.Task[None]] = []
        self.verifier = TransactionVerifier(
            settings=TransactionSettings(
                add_partitions_to_txn_retry_backoff_ms=5, add_partitions_to_txn_retry_backoff_max_ms=retry_ms
            ),
            request_timeout_ms=1_000,
            coordinator_of=lambda name: coordinator,
            peers=self,  # type: ignore[arg-type]  # `call` is all that is used
            logger=Quiet(),  # type: ignore[arg-type]
            spawn=self.spawn,
        )

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    async def call(
        self, broker_id: int, api_key: ApiKey, version: int, message: Message, *, timeout_ms: int
    ) -> Message:
        self.asked.append(message)
        await asyncio.sleep(0.005)
        self.on_asked()
        error = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if error is None:
            raise ChannelError("cut")
        results = [
            {
                "transactional_id": each.transactional_id,
                "topic_results": [
                    {
                        "name": topic.name,
                        "results_by_partition": [
                            {"partition_index": index, "partition_error_code": error} for index in topic.partitions
                        ],
                    }
                    for topic in each.topics
                ],
            }
            for each in message.transactions
        ]
        return response(api_key, version, results_by_transaction=results)

    def produce(self, sequence: int, *, epoch: int = 1) -> bool:
        """As the Produce handler does. Whether it waits."""
        batch = encode_batch(
            [b"v"], timestamps_ms=1, producer_id=7, producer_epoch=epoch, base_sequence=sequence, transactional=True
        )

        def take_guard() -> VerificationGuard | None:
            return self.log.checks.begin_verification(7, epoch, sequence=sequence, supports_epoch_bump=True)

        def proceed(error: ErrorCode, guard: VerificationGuard | None) -> None:
            if error is NONE:
                verdict = self.log.append(batch, leader_epoch=0, guard=guard, must_be_verified=True).verdict
                error = NONE if verdict is Verdict.OK else ErrorCode.invalid_txn_state
            self.errors[sequence] = error
            if error is NONE:
                self.appended.append(sequence)

        producer = Producer(transactional_id="x", producer_id=7, producer_epoch=epoch)
        return self.verifier.ask(producer, PARTITION, adds=True, take_guard=take_guard, proceed=proceed)

    def mark(self, *, epoch: int = 1) -> None:
        """The end of the producer's last transaction."""
        self.log.append_marker(
            producer_id=7,
            producer_epoch=epoch,
            marker=EndMarker(True, 0),
            leader_epoch=0,
            timestamp_ms=1,
            transaction_version=2,
        )

    async def settle(self, count: int) -> None:
        for _ in range(400):
            if len(self.errors) == count:
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"{len(self.errors)} of {count} batches were decided")


class Quiet:
    def warning(self, event: str, **facts: object) -> None: ...


def test_batches_of_one_producer_share_a_question_and_keep_their_order(tmp_path: Path) -> None:
    async def run() -> None:
        rig = Rig(tmp_path, NONE)
        assert all(rig.produce(sequence) for sequence in range(5))
        await rig.settle(5)
        assert rig.appended == [0, 1, 2, 3, 4]
        assert len(rig.asked) == 1
        assert not rig.asked[0].transactions[0].verify_only
        assert not rig.produce(5)  # ongoing here: nobody is asked
        assert rig.appended[-1] == 5

    asyncio.run(run())


def test_batch_before_the_last_marker_waits_for_it_and_later_ones_stay_behind(tmp_path: Path) -> None:
    """The next transaction begins while the markers of the last one are being written; one takes the guard away."""

    async def run() -> None:
        rig = Rig(tmp_path, CONCURRENT, NONE)
        rig.produce(0)

        def more_later() -> None:
            asyncio.get_running_loop().call_later(0.001, marker_then_more)

        rig.on_asked = more_later

        def marker_then_more() -> None:
            rig.on_asked = lambda: None
            rig.mark()
            rig.produce(1)

        await rig.settle(2)
        assert rig.errors == {0: NONE, 1: NONE}
        assert rig.appended == [0, 1]
        assert len(rig.asked) == 2

    asyncio.run(run())


def test_answer_that_a_marker_overtook_is_asked_for_again(tmp_path: Path) -> None:
    async def run() -> None:
        rig = Rig(tmp_path, NONE)
        rig.produce(0)

        def mark_once() -> None:
            rig.on_asked = lambda: None
            rig.mark()

        rig.on_asked = mark_once
        await rig.settle(1)
        assert (rig.errors, len(rig.asked)) == ({0: NONE}, 2)

    asyncio.run(run())


def test_coordinator_that_stays_busy_is_told_to_the_client_in_time(tmp_path: Path) -> None:
    async def run() -> None:
        rig = Rig(tmp_path, CONCURRENT, retry_ms=100)
        rig.produce(0)
        await rig.settle(1)
        assert rig.errors == {0: CONCURRENT}
        assert 1 <= len(rig.asked) <= 20

    asyncio.run(run())


def test_no_coordinator_and_no_answer_are_retriable_for_the_client(tmp_path: Path) -> None:
    async def run() -> None:
        for number, rig in enumerate((Rig(tmp_path / "a", NONE, coordinator=-1), Rig(tmp_path / "b", None))):
            rig.produce(0)
            await rig.settle(1)
            assert produce_error(rig.errors[0], 12) is ErrorCode.not_enough_replicas, number
            assert rig.appended == []

    asyncio.run(run())


def test_errors_are_what_the_version_of_the_client_knows() -> None:
    assert produce_error(ErrorCode.producer_fenced, 12) is ErrorCode.invalid_producer_epoch
    assert produce_error(CONCURRENT, 12) is CONCURRENT
    assert produce_error(CONCURRENT, 11) is ErrorCode.not_enough_replicas
    assert produce_error(ErrorCode.transaction_abortable, 11) is ErrorCode.transaction_abortable
    assert produce_error(ErrorCode.transaction_abortable, 10) is ErrorCode.invalid_txn_state


def test_many_questions_go_in_several_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the coordinator takes in one: it closes the connection of a larger one, and nothing would go on."""
    monkeypatch.setattr("broker.node.coordination.verification.QUESTIONS_PER_REQUEST_MAX", 3)

    async def run() -> None:
        rig = Rig(tmp_path, NONE)
        errors: list[ErrorCode] = []
        for producer_id in range(8):
            producer = Producer(transactional_id=f"x{producer_id}", producer_id=producer_id, producer_epoch=0)
            guard = rig.log.checks.begin_verification(producer_id, 0, sequence=0, supports_epoch_bump=True)
            assert rig.verifier.ask(
                producer,
                PARTITION,
                adds=True,
                take_guard=partial(lambda guard: guard, guard),
                proceed=lambda error, guard: errors.append(error),
            )
        for _ in range(400):
            if len(errors) == 8:
                break
            await asyncio.sleep(0.005)
        assert errors == [NONE] * 8
        assert sorted(len(each.transactions) for each in rig.asked) == [2, 3, 3]

    asyncio.run(run())
