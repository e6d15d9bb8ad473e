"""The reference producer in the simulation: its real sender, accumulator, metadata cache and connections.

Only the thread is simulated: a simulated machine runs the sender's steps. Every record has an identity, so that at the
end the logs can be compared with what was acknowledged.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from broker.client import native
from broker.client.clock import now_ms
from broker.client.core.batch import RecordMetadata, TopicPartition
from broker.client.core.config import parse_producer
from broker.client.core.errors import KafkaError
from broker.client.sender_thread import SenderThread
from broker.sim.coverage import Coverage
from broker.sim.invariants.clients import AcknowledgedMeansCommitted
from broker.sim.invariants.invariant import Fail
from broker.sim.loop import SimLoop, read_wall_ns
from broker.sim.network import Network
from broker.sim.scheduler import Scheduler
from broker.sim.sockets import Machine

if TYPE_CHECKING:
    from broker.sim.partition_checker import PartitionChecker

INVARIANTS_EVERY_EVENTS = 20  # the producer's own invariants; a check walks over all its batches
INCOMPLETE_MAX = 40  # with this many incomplete records a producer waits, as with a bounded buffer
_RECORD_OVERHEAD_BYTES = 30


class SimProducer:
    """`acked` maps a record's identity to (partition, offset or -1). Records in `unknown` may be in the log, those in
    `failed` are not."""

    def __init__(
        self,
        *,
        name: str,
        seed: float,
        bootstrap: str,
        topic: str,
        partitions: int,
        acks: str,
        is_idempotent: bool,
        scheduler: Scheduler,
        network: Network,
        coverage: Coverage,
        checker: PartitionChecker,
        fail: Fail,
    ) -> None:
        self.name, self.acks, self.is_idempotent = name, acks, is_idempotent
        self.acked: dict[bytes, tuple[int, int]] = {}
        self.failed: set[bytes] = set()
        self.unknown: set[bytes] = set()
        self.sent = 0
        self.may_produce = True
        self._next_check = 0
        self._topic, self._partitions = topic, partitions
        self._scheduler, self._coverage, self._checker = scheduler, coverage, checker
        self._means_committed = AcknowledgedMeansCommitted(fail)
        self._rng = random.Random(seed)
        self.loop = SimLoop(scheduler=scheduler, network=network, host=name)  # type: ignore[abstract]
        self._machine = Machine(scheduler=scheduler, network=network, loop=self.loop, step=self._step)
        self._config = parse_producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": name,
                "acks": acks,
                "enable.idempotence": str(is_idempotent).lower(),
                "linger.ms": "2",
                "batch.size": "400",
                "max.in.flight.requests.per.connection": "5" if is_idempotent else "1",
                "retry.backoff.ms": "20",
                "retry.backoff.max.ms": "100",
                "request.timeout.ms": "300",
                "delivery.timeout.ms": "1500",
                "reconnect.backoff.ms": "20",
                "reconnect.backoff.max.ms": "100",
                "socket.connection.setup.timeout.ms": "300",
                "metadata.max.age.ms": "2000",
            }
        )
        self.loop.run_callback(self._begin)

    def _begin(self) -> None:
        saved = native.start_thread
        native.start_thread = lambda run: native.Event()  # the machine runs its steps
        try:
            with self._machine.as_native():
                self.sender = SenderThread(self._config, self._rng.randrange(2**32))
        finally:
            native.start_thread = saved
        self._machine.wake()

    @property
    def is_drained(self) -> bool:
        return not self.sender.unreported()

    @property
    def epoch_bumps(self) -> int:
        return self.sender.core.counters.epoch_bump_total

    def _step(self) -> None:
        with self._machine.as_native():
            before = self.sender.core.counters.epoch_bump_total
            self.sender._step()  # one turn of the thread's loop; no thread runs it here
            if self._scheduler.events_run >= self._next_check:
                self._next_check = self._scheduler.events_run + INVARIANTS_EVERY_EVENTS
                self.sender.core.check_invariants()
            if self.sender.core.counters.epoch_bump_total > before:
                self._coverage.reached("producer epoch bump")
        wait_ms = self._machine.poll_wait_ms
        self._machine.look_after(1000 if wait_ms is None else wait_ms)

    def produce_for_ever(self, gap_us: int) -> None:
        """Queue records for ever, with random gaps."""

        def again() -> None:
            if self.may_produce:
                self.loop.run_callback(self._send)
            self._scheduler.after(int(self._rng.expovariate(1 / gap_us)) + 1, again)

        self._scheduler.after(gap_us, again)

    def _send(self) -> None:
        sender, time_ms = self.sender, now_ms()
        sender.metadata.use_topic(self._topic, time_ms)
        if not sender.metadata.partition_count(self._topic):
            sender.metadata.request_update()
            sender.wake_by(0)
            return
        if len(sender.accumulator.incomplete) >= INCOMPLETE_MAX:
            return
        for _ in range(self._rng.choice((1, 1, 1, 3))):
            self._send_one(time_ms)

    def _send_one(self, time_ms: int) -> None:
        index = self._rng.randrange(self._partitions)
        identity = f"{self.name}:{index}:{self.sent}".encode()
        self.sent += 1
        value = identity + b" " + self._rng.randbytes(self._rng.randrange(1, 120))  # zeros would hide a torn write

        def on_delivery(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            self._delivered(identity, index, metadata, error)

        sender = self.sender
        queue = sender.accumulator.queue_of(TopicPartition(self._topic, index))
        stamp_ms = read_wall_ns() // 1_000_000
        appended = sender.accumulator.try_append(
            queue, value, None, (), stamp_ms, on_delivery, len(value) + _RECORD_OVERHEAD_BYTES, time_ms
        )
        assert appended is not None, "buffer.memory is far larger than INCOMPLETE_MAX batches"
        sender.wake_by(time_ms if len(queue.batches) > 1 else time_ms + self._config.linger_ms)

    def _delivered(
        self, identity: bytes, index: int, metadata: RecordMetadata | None, error: KafkaError | None
    ) -> None:
        if error is not None:
            (self.failed if error.definite else self.unknown).add(identity)
            if not error.definite:
                self._coverage.reached("outcome unknown")
            return
        assert metadata is not None
        self.acked[identity] = (index, metadata.offset)
        key = (self._topic, index)
        is_judged = self.acks == "all" and metadata.offset >= 0 and not self._checker.was_unclean(key)
        if is_judged:
            self._means_committed.check(
                f"{self._topic}-{index}", metadata.offset, committed_end=self._checker.committed_end(key)
            )
