"""The reference client's transactional producer in the simulation: the real `Producer`, with its threads.

Its application thread begins transactions, sends, and then commits, with or without offsets of a group, or aborts. This
goes on until it dies, is fenced, or sleeps so long that its successor has begun. The invariants are those of the
simulated producers (transaction_checker). For them, each batch is noted when the sender sends it. One process follows
another, each with new connections. A killed process runs no more code.
"""

from __future__ import annotations

import contextlib
import random

from broker.client.core.batch import Batch, RecordMetadata, TopicPartition
from broker.client.core.errors import KafkaError
from broker.client.core.sender_events import SendProduce
from broker.client.core.transactions import TransactionState
from broker.client.producer import Producer
from broker.client.sender_thread import SenderThread
from broker.sim.coverage import Coverage
from broker.sim.invariants.clients import ClientDoesNotFail
from broker.sim.invariants.invariant import Fail
from broker.sim.loop import SimLoop
from broker.sim.network import Network
from broker.sim.scheduler import Scheduler
from broker.sim.threads import Threads
from broker.sim.transaction_checker import TransactionChecker
from broker.sim.transactions_seen import Attempt
from broker.wire.errors import ErrorCode

END_ATTEMPTS = 4  # A commit or an abort that gets no answer in time is tried so often.
CALL_S = 1.5
FENCED = frozenset({ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch, ErrorCode.invalid_producer_id_mapping})


class _Process:
    """One life of the producer."""

    def __init__(self, owner: RealTransactionalProducer, number: int) -> None:
        self.owner, self.number = owner, number
        self.loop = SimLoop(  # type: ignore[abstract]  # only to typeshed: the others raise
            scheduler=owner.scheduler, network=owner.network, host=owner.name
        )
        self.threads = Threads(scheduler=owner.scheduler, network=owner.network, loop=self.loop)
        self.is_done = False
        self._rng = random.Random(owner.rng.random())
        self._attempt: Attempt | None = None
        self._attempts: dict[bytes, Attempt] = {}  # The key is the identity of a record.
        self._records = 0

    # -- the application's thread ------------------------------------------------------------------------------------

    def run(self) -> None:
        try:
            self._live()
        finally:
            self.is_done = True

    def _live(self) -> None:
        owner = self.owner
        self._producer = producer = Producer(owner.properties(self._rng), seed=self._rng.randrange(2**32))
        self._note_batches(producer._sender)
        try:
            producer.init_transactions(timeout_s=3.0)
            while not owner.is_over:
                if not self._transact():
                    break
                self._sleep(self._rng.uniform(0.0, 0.08))
        except KafkaError as error:
            if error.code in FENCED:
                owner.coverage.reached("real producer fenced")
        with contextlib.suppress(KafkaError):
            producer.close(timeout_s=1.0)

    def _transact(self) -> bool:
        """Do one transaction. False: this life ends here."""
        owner, producer, rng = self.owner, self._producer, self._rng
        transactions = producer._transactions
        assert transactions is not None
        producer.begin_transaction()
        attempt = self._attempt = owner.next_attempt(self.number, bumps_epoch=transactions.core.is_bumping)
        is_commit = rng.random() < 0.7
        try:
            for _ in range(rng.choice((1, 2, 4))):
                self._send(attempt)
                self._sleep(rng.uniform(0.0, 0.03))
                if rng.random() < 0.04:
                    self._oversleep()
            if rng.random() < 0.5:
                # Set before the request is sent. If no answer comes, only an abort may follow.
                attempt.offset = attempt.number
                producer.send_offsets_to_transaction({TopicPartition(owner.topic, 0): attempt.number}, owner.group)
            if rng.random() < 0.03:
                return False  # the transaction stays open; its successor or the coordinator ends it
            if is_commit:
                self._end(attempt, is_commit=True)
                return True
        except KafkaError as error:
            if error.code in FENCED or transactions.core.state is TransactionState.FATAL:
                raise
            if transactions.core.state is TransactionState.COMMITTING:
                return False  # the outcome is unknown
        self._end(attempt, is_commit=False)
        return True

    def _send(self, attempt: Attempt) -> None:
        owner, rng = self.owner, self._rng
        self._records += 1
        identity = f"{attempt.name}:{self._records}".encode()
        self._attempts[identity] = attempt
        value = identity + b" " + rng.randbytes(rng.randrange(1, 60))

        def on_delivery(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            if error is None:
                attempt.acked.add(identity)

        self._producer.send(owner.topic, value, partition=rng.randrange(owner.partitions), on_delivery=on_delivery)

    def _end(self, attempt: Attempt, *, is_commit: bool) -> None:
        """End the transaction. The same call is repeated while its outcome is unknown."""
        attempt.asked.add(is_commit)
        end = self._producer.commit_transaction if is_commit else self._producer.abort_transaction
        for number in range(1, END_ATTEMPTS + 1):
            try:
                end(timeout_s=CALL_S)
            except KafkaError as error:
                if error.definite or number == END_ATTEMPTS:
                    raise
            else:
                break
        self.owner.checker.end_answered(attempt, is_commit=is_commit)
        self.owner.coverage.reached("real producer committed" if is_commit else "real producer aborted")

    def _oversleep(self) -> None:
        """Sleep so long that a successor begins, or that the coordinator ends the transaction."""
        if self._rng.random() < 0.5:
            self.owner.begin_successor()
        self._sleep(self._rng.uniform(0.3, 1.5))

    def _sleep(self, duration_s: float) -> None:
        self.threads.wait(lambda: False, duration_s * 1000)

    # -- the sender's thread -----------------------------------------------------------------------------------------

    def _note_batches(self, sender: SenderThread) -> None:
        send = sender._send_produce

        def noted(action: SendProduce) -> None:
            for batch in action.batches:
                self._note(batch)
            send(action)

        sender._send_produce = noted  # type: ignore[method-assign]

    def _note(self, batch: Batch) -> None:
        records = tuple(bytes(value or b"").split(b" ")[0] for value in batch.values)
        self.owner.checker.sending(
            self._attempts[records[0]],
            (batch.partition.topic, batch.partition.partition),
            producer=(batch.producer_id, batch.producer_epoch),
            base_sequence=batch.base_sequence,
            records=records,
        )


class RealTransactionalProducer:
    def __init__(
        self,
        *,
        name: str,
        bootstrap: str,
        topic: str,
        partitions: int,
        scheduler: Scheduler,
        network: Network,
        rng: random.Random,
        checker: TransactionChecker,
        coverage: Coverage,
        fail: Fail,
    ) -> None:
        self.name, self.topic, self.partitions, self.group = name, topic, partitions, f"offsets-of-{name}"
        self.scheduler, self.network, self.rng = scheduler, network, rng
        self.checker, self.coverage = checker, coverage
        self.is_over = False
        self._bootstrap, self._does_not_fail = bootstrap, ClientDoesNotFail(fail)
        self._processes: list[_Process] = []
        self._attempts = 0

    def properties(self, rng: random.Random) -> dict[str, str]:
        return {
            "bootstrap.servers": self._bootstrap,
            "client.id": self.name,
            "transactional.id": self.name,
            "transaction.timeout.ms": str(rng.choice((500, 1_000, 2_500))),
            "linger.ms": "2",
            "retry.backoff.ms": "20",
            "retry.backoff.max.ms": "100",
            "request.timeout.ms": "300",
            "delivery.timeout.ms": "1500",
            "max.block.ms": "1500",
            "reconnect.backoff.ms": "20",
            "reconnect.backoff.max.ms": "100",
            "socket.connection.setup.timeout.ms": "300",
            "metadata.max.age.ms": "2000",
        }

    def next_attempt(self, incarnation: int, *, bumps_epoch: bool) -> Attempt:
        self._attempts += 1
        name = f"{self.name}:{incarnation}:{self._attempts}"
        attempt = Attempt(name=name, number=self._attempts, bumps_epoch=bumps_epoch)
        self.checker.attempts.append(attempt)
        return attempt

    # -- its processes -----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self.begin_successor()
        self._scheduler_after(self.rng.randrange(20_000, 200_000))

    def begin_successor(self) -> None:
        process = _Process(self, len(self._processes) + 1)
        self._processes.append(process)
        process.threads.begin(process.run)

    def _scheduler_after(self, delay_us: int) -> None:
        self.scheduler.after(delay_us, self._look)

    def _look(self) -> None:
        """Now and then kill a process. Begin the next one when none is left."""
        if self.is_over:
            return
        living = [each for each in self._processes if not each.is_done and not each.loop.is_dead]
        if living and self.rng.random() < 0.05:
            victim = self.rng.choice(living)
            victim.loop.kill()
            self.network.process_died(victim.loop, with_power=True)
            self.coverage.reached("real producer killed")
        elif not living:
            self.begin_successor()
        self._scheduler_after(self.rng.randrange(20_000, 200_000))

    @property
    def is_done(self) -> bool:
        for process in self._processes:
            self._does_not_fail.check(self.name, process.threads.failure)
        return all(each.is_done or each.loop.is_dead for each in self._processes)

    def dispose(self) -> None:
        for process in self._processes:
            process.threads.dispose()
