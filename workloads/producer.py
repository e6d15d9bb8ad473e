"""One producer user in its own OS thread: sends all that is due, logs each outcome, never waits for an answer.

The thread wakes about once a millisecond. A record that is late keeps its intended time. When the client has no space
the thread waits for it (that is the cluster's or the client's delay, and counts as latency); when the thread itself
was late, that is the generator's, and goes into `lag`.
"""

from __future__ import annotations

import threading
import time

import numpy as np

from runlog.inflight import InflightRing
from runlog.schema import SEND, SendStatus
from runlog.segment import SegmentWriter
from workloads.clients import make_producer
from workloads.clients.protocol import ProducerClient, SendToken
from workloads.context import CONNECT_TIMEOUT_S, LoadContext, Phases
from workloads.histogram import LogHistogram
from workloads.schedule import Share

TICK_S = 0.001
IDLE_POLL_S = 0.02  # so that a stop is noticed soon at low rates
SENDS_PER_TURN_MAX = 1_000  # between two looks at outcomes
LATE_US = 10_000  # a send this long after its intended time counts as late
CLOSE_TIMEOUT_S = 2.0


class ProducerUserLoop:
    """`run` is the thread's body; the attributes may be read from elsewhere at any time."""

    def __init__(self, context: LoadContext) -> None:
        plan = context.plan
        self._context = context
        self.number = context.claim_number("producer", plan.workload.producers)
        self.incarnation = 0
        self._share = Share(context.schedule, index=self.number, of=plan.workload.producers)
        self._ring = InflightRing(context.live, producer=self.number, incarnation=self.incarnation)
        self.writer_name = f"p{self.number}i{self.incarnation}"
        self._writer = SegmentWriter(context.live, SEND, self.writer_name)
        self._append_lock = threading.Lock()  # outcomes may come from a thread of the client library
        self._t0_ns = plan.t0_monotonic_ns
        self._size_bytes = plan.workload.record_size_bytes
        self._client: ProducerClient | None = None
        self.is_ready = False
        self.is_finished = False
        self.handed = 0
        self.completed = 0
        self.late_sends = 0
        self.backpressure_sends = 0
        self.unsent = 0
        self.lag = LogHistogram()
        self._blocked_until_ns = 0

    def run(self) -> None:
        """Connect, wait for the start, send by the schedule, drain, close. Errors go to the context."""
        try:
            self._run()
        except Exception as error:  # the entry point of a thread: nobody above would hear of it
            self._context.add_error(f"producer {self.number}: {error}")
        finally:
            self._close()
            self.is_finished = True

    def _run(self) -> None:
        plan = self._context.plan
        client = make_producer(plan.client, plan.bootstrap_servers, plan.topic, plan.properties, self._complete)
        self._client = client
        client.connect(CONNECT_TIMEOUT_S)
        self.is_ready = True
        phases = self._context.wait_begin()
        if phases is None:
            return
        self._send_by_schedule(client, phases)
        self._drain(client, phases)

    def _send_by_schedule(self, client: ProducerClient, phases: Phases) -> None:
        stopped = self._context.sending_stopped
        share, total = self._share, self._share.total
        next_ns = self._next_intended_ns(phases)
        while self.handed < total and not stopped.is_set():
            now_ns = time.monotonic_ns()
            if now_ns >= phases.drain_end_ns:
                break  # the cluster took no more: the rest stays unsent and is reported as such
            if now_ns < next_ns:
                client.poll(min(max((next_ns - now_ns) / 1e9, TICK_S), IDLE_POLL_S))
                continue
            due = share.count_until(min(now_ns, phases.end_ns) - phases.start_ns) - self.handed
            self._send(client, phases, min(due, SENDS_PER_TURN_MAX))
            client.poll(0)
            next_ns = self._next_intended_ns(phases)
        self.unsent = 0 if stopped.is_set() else total - self.handed

    def _next_intended_ns(self, phases: Phases) -> int:
        if self.handed >= self._share.total:
            return phases.end_ns
        return phases.start_ns + int(self._share.next_times_ns(self.handed, 1)[0])

    def _send(self, client: ProducerClient, phases: Phases, due: int) -> None:
        intended_times = (self._share.next_times_ns(self.handed, due) + phases.start_ns).tolist()
        value_of, keys, record = self._context.pool.value, self._context.keys, self._ring.record
        producer, incarnation, t0_ns, size_bytes = self.number, self.incarnation, self._t0_ns, self._size_bytes
        monotonic_ns = time.monotonic_ns
        first_seq = seq = self.handed
        sent_times: list[int] = []
        for intended_ns in intended_times:
            if seq - self.completed >= self._ring.slots and not self._wait_for_space(client, phases):
                break
            intended_us = (intended_ns - t0_ns) // 1_000
            sent_ns = monotonic_ns()
            sent_us = (sent_ns - t0_ns) // 1_000
            record(seq, intended_us, sent_us, size_bytes)
            value = value_of(producer, incarnation, seq, intended_ns)
            key = keys[seq % len(keys)] if keys is not None else None
            if not client.send(value, key, (seq, intended_us, sent_us)):
                accepted_ns = self._retry_send(client, phases, value, key, seq, intended_us)
                if accepted_ns is None:
                    self._ring.erase(seq)
                    break
                sent_ns = accepted_ns
            sent_times.append(sent_ns)
            seq += 1
            self.handed = seq
        self._note_lag(intended_times[: seq - first_seq], sent_times)

    def _retry_send(
        self, client: ProducerClient, phases: Phases, value: bytes, key: bytes | None, seq: int, intended_us: int
    ) -> int | None:
        """Wait until the client takes the record: the time at which it did, or None if the run ended first."""
        while self._may_go_on(phases):
            client.poll(TICK_S)
            sent_ns = time.monotonic_ns()
            sent_us = (sent_ns - self._t0_ns) // 1_000
            self._ring.record(seq, intended_us, sent_us, self._size_bytes)
            if client.send(value, key, (seq, intended_us, sent_us)):
                self._blocked_until_ns = sent_ns
                return sent_ns
        return None

    def _wait_for_space(self, client: ProducerClient, phases: Phases) -> bool:
        while self._may_go_on(phases):
            client.poll(TICK_S)
            if self.handed - self.completed < self._ring.slots:
                self._blocked_until_ns = time.monotonic_ns()
                return True
        return False

    def _may_go_on(self, phases: Phases) -> bool:
        return not self._context.sending_stopped.is_set() and time.monotonic_ns() < phases.drain_end_ns

    def _note_lag(self, intended_times: list[int], sent_times: list[int]) -> None:
        intended = np.array(intended_times, dtype=np.int64)
        lag_us = (np.array(sent_times, dtype=np.int64) - intended) // 1_000
        ours = intended > self._blocked_until_ns
        self.lag.add(lag_us[ours])
        self.late_sends += int(np.count_nonzero(lag_us[ours] > LATE_US))
        self.backpressure_sends += int(np.count_nonzero(~ours))

    def _drain(self, client: ProducerClient, phases: Phases) -> None:
        while self.completed < self.handed and time.monotonic_ns() < self._context.drain_deadline_ns(phases):
            client.poll(0.01)

    def _complete(self, token: SendToken, status: SendStatus, error: int, partition: int, offset: int) -> None:
        """The outcome sink of the client: one row, from whichever thread."""
        acked_us = (time.monotonic_ns() - self._t0_ns) // 1_000
        seq, intended_us, sent_us = token
        with self._append_lock:
            self._writer.append_send(
                self.number, self.incarnation, seq, partition, status, error, self._size_bytes,
                intended_us, sent_us, acked_us, offset,
            )  # fmt: skip
            self.completed += 1

    def _close(self) -> None:
        try:
            if self._client is not None:
                self._client.close(CLOSE_TIMEOUT_S)
        except Exception as error:  # a client that fails to close must not hide what was measured
            self._context.add_error(f"producer {self.number}: close: {error}")
        with self._append_lock:
            self._writer.close()
        self._ring.close()

    def client_metrics(self) -> dict[str, float]:
        return self._client.metrics() if self._client is not None else {}

    def client_effective(self) -> dict[str, str]:
        return self._client.effective() if self._client is not None else {}
