"""One producer user in its own OS thread. It sends everything that is due and never waits for an answer.

- The thread sends all that is due, then sleeps until the next record is due, but at least half a millisecond. At high
  rates, turns of a few records would cost more than the records.
- A record that is late keeps its intended time.
- If the client has no space, the thread waits for it. This is the cluster's or the client's delay, and counts as
  latency.
- If the thread itself was late, that is the generator's delay, and goes into `lag`.

outcomes.py writes the outcomes. The clock is read once for a run of at most RUN_RECORDS records that are due together.
Such a run takes about 0.1 ms, so `sent_us` may be too early by that much. At low rates a run is one record. A client
that takes batches gets all that is due as one run, and says itself when it has sent each.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from workloads.batches import BatchMaker
from workloads.clients import make_producer, make_transactional_producer
from workloads.clients.protocol import CONNECT_TIMEOUT_S, ProducerClient, TakesBatches
from workloads.context import LoadContext, Phases
from workloads.histogram import LogHistogram
from workloads.model import Closed
from workloads.outcomes import OutcomeLog, topic_of
from workloads.schedule import LOOKAHEAD, Lookahead, Share
from workloads.transactions import TransactionalProducer

# At least, from the start of one turn to the start of the next; at high rates the mean lag is half of it. A turn of
# batches with its outcomes costs some 0.2 ms, and 0.4 us for each record besides.
TURN_NS = 500_000
TICK_S = 0.001  # between two tries while the client has no space
CLOSED_LOOP_TICK_S = 0.000_1  # in a closed loop an answer must be noticed at once
DEEP_LOOP = 1_000  # with as many records under way, noticing an answer 1 ms later costs nothing, and looking does
IDLE_POLL_S = 0.02  # so that a stop is noticed soon at low rates
SENDS_PER_TURN_MAX = 1_000  # between two looks at outcomes
RUN_RECORDS = 64
LATE_US = 10_000  # a send this long after its intended time counts as late
CLOSE_TIMEOUT_S = 2.0

_Times = NDArray[np.int64]


class ProducerUserLoop:
    """`run` is the thread's body; the attributes may be read from elsewhere at any time."""

    def __init__(self, context: LoadContext) -> None:
        plan, workload = context.plan, context.plan.workload
        self._context = context
        self.number = context.claim_number("producer", plan.producers_here)
        self.incarnation = 0
        burst = workload.records_per_burst
        self._share = Share(context.schedule, index=self.number, of=workload.producers, burst=burst)
        self._lookahead = Lookahead(self._share)
        self._log = OutcomeLog(
            context.live,
            producer=self.number,
            incarnation=self.incarnation,
            t0_ns=plan.t0_monotonic_ns,
            topics=workload.topics,
            partitions=plan.partitions,
            log_append_time=plan.log_append_time,
            on_problem=lambda problem: context.add_error(f"producer {self.number}: {problem}"),
        )
        shape = workload.schedule
        self._is_closed_loop = isinstance(shape, Closed)
        self._in_flight_max = shape.outstanding if isinstance(shape, Closed) else self._log.in_flight_max
        is_shallow = self._is_closed_loop and self._in_flight_max < DEEP_LOOP
        self._tick_s = CLOSED_LOOP_TICK_S if is_shallow else TICK_S
        self._t0_ns = plan.t0_monotonic_ns
        self._header_shift_ns = plan.header_shift_ns
        self._topics = plan.topic_names
        self._client: ProducerClient | None = None
        self._transactions: TransactionalProducer | None = None
        self._in_batches: TakesBatches | None = None  # the client, if it takes them
        self._batches = BatchMaker(
            context.pool, context.keys, topics=len(self._topics), producer=self.number, incarnation=self.incarnation
        )
        self.is_ready = False
        self.is_finished = False
        self.handed = 0
        self.late_sends = 0
        self.backpressure_sends = 0
        self.unsent = 0
        self.unsent_for_space = 0  # They were due while the client had no room, which is not the generator's fault.
        self.lag = LogHistogram()
        self._blocked_until_ns = 0
        self._measure_ns = 0  # when the measured window begins

    @property
    def writer_name(self) -> str:
        return self._log.writer_name

    def prepare(self) -> None:
        if not self.is_finished:
            self._log.prepare()

    def run(self) -> None:
        """Connect, wait for the start, send by the schedule, drain, close. Errors go to the context."""
        try:
            self._run()
        except Exception as error:  # the entry point of a thread: no caller would get the error
            self._context.add_error(f"producer {self.number}: {error}")
        finally:
            self._close()
            self.is_finished = True

    def _run(self) -> None:
        client = self._client = self._make_client()
        client.connect(CONNECT_TIMEOUT_S)
        if isinstance(client, TakesBatches) and client.takes_batches:
            self._in_batches = client
        self.is_ready = True
        phases = self._context.wait_begin()
        if phases is None:
            return
        self._measure_ns = phases.measure_ns
        self._send_by_schedule(client, phases)
        self._drain(client, phases)

    def _make_client(self) -> ProducerClient:
        client, setup = self._context.plan.client, self._context.producer_setup(self.number)
        workload = self._context.plan.workload
        if not workload.is_transactional:
            return make_producer(client, setup, self._log)
        transactional = TransactionalProducer(
            lambda sink: make_transactional_producer(client, setup, sink),
            self._log,
            commit_interval_ms=workload.commit_interval_ms,
            records_max=workload.transaction_records,
            abort_share=workload.transaction_abort_share,
            producer=self.number,
        )
        self._transactions = transactional
        return transactional

    def _send_by_schedule(self, client: ProducerClient, phases: Phases) -> None:
        stopped = self._context.sending_stopped
        share, total = self._share, self._share.total
        at_most = SENDS_PER_TURN_MAX if self._in_batches is None else LOOKAHEAD // 2
        next_ns = self._next_intended_ns(phases)
        while self.handed < total and not stopped.is_set():
            now_ns = time.monotonic_ns()
            if now_ns >= phases.drain_end_ns or (self._is_closed_loop and now_ns >= phases.end_ns):
                break  # out of time: the rest stays unsent and is reported
            if now_ns < next_ns:
                client.poll(min((next_ns - now_ns) / 1e9, IDLE_POLL_S))
                continue
            due_ns = self._lookahead.due(self.handed, min(now_ns, phases.end_ns) - phases.start_ns, at_most)
            self._send(client, phases, due_ns + phases.start_ns)
            client.poll(0)
            next_ns = max(self._next_intended_ns(phases), now_ns + TURN_NS)
        # In a closed loop the schedule is only an upper limit, so what was not reached is not missing.
        if not stopped.is_set() and not self._is_closed_loop:
            self.unsent = total - self.handed
            refused = share.count_until(self._blocked_until_ns - phases.start_ns) - self.handed
            self.unsent_for_space = max(0, min(refused, self.unsent))

    def _next_intended_ns(self, phases: Phases) -> int:
        if self.handed >= self._share.total:
            return phases.end_ns
        return phases.start_ns + self._lookahead.next_ns(self.handed)

    def _send(self, client: ProducerClient, phases: Phases, intended_ns: _Times) -> None:
        """Hand over the next records, in runs that share one look at the clock."""
        done, due = 0, len(intended_ns)
        while done < due:
            room = self._room()
            if room <= 0:
                if not self._wait(client, phases):
                    return
                continue
            if self._in_batches is None:
                count = min(room, RUN_RECORDS)
            else:
                count = self._batches.fitting(self.handed, min(room, due - done))
            run = intended_ns[done : done + count]
            handed = self._send_run(client, run)
            done += handed
            if handed < len(run) and not self._wait(client, phases):
                self._log.take_back(self.handed, len(run) - handed)
                return

    def _room(self) -> int:
        """How many records may be handed over now. In a closed loop, a record whose transaction is still open is no
        longer under way when a broker has answered: otherwise the loop would wait for the commit instead of the broker,
        and `outstanding` would be the limit of a transaction."""
        without_outcome = self.handed - self._log.completed
        if self._is_closed_loop and self._transactions is not None:
            answered = self._transactions.answered
            return min(self._in_flight_max - without_outcome + answered, self._log.in_flight_max - without_outcome)
        if self._in_batches is not None:
            return min(self._in_flight_max - without_outcome, self._in_batches.room())
        return self._in_flight_max - without_outcome

    def _send_run(self, client: ProducerClient, intended_ns: _Times) -> int:
        """How many of the records the client took. The others are noted as in flight too, so they must be tried again
        or taken back."""
        number, incarnation, first_seq = self.number, self.incarnation, self.handed
        pool, keys, topics = self._context.pool, self._context.keys, self._topics
        value_of, send, topic, key = pool.value, client.send, topics[0], None
        sent_ns = time.monotonic_ns()
        if self._is_closed_loop:
            # In a closed loop nothing is intended earlier than it is sent.
            intended_ns = np.full(len(intended_ns), sent_ns)
        intended_us = (intended_ns - self._t0_ns) // 1_000
        self._log.hand_over(first_seq, intended_us, sent_ns, pool.sizes_bytes(first_seq, len(intended_ns)))
        if self._in_batches is not None:
            self._in_batches.send_batch(self._batches.batch(first_seq, intended_ns + self._header_shift_ns))
            self.handed += len(intended_ns)
            self._note_lag(intended_ns, sent_ns)
            return len(intended_ns)
        seq = first_seq
        for due_ns in (intended_ns + self._header_shift_ns).tolist():
            if len(topics) > 1:
                topic = topics[topic_of(number, seq, len(topics))]
            if keys is not None:
                key = keys[seq % len(keys)]
            if not send(topic, value_of(number, incarnation, seq, due_ns), key, seq):
                break
            seq += 1
        self.handed = seq
        self._note_lag(intended_ns[: seq - first_seq], sent_ns)
        return seq - first_seq

    def _wait(self, client: ProducerClient, phases: Phases) -> bool:
        """The client or the bound of sends in flight has no room. False when the run is over."""
        if self._context.sending_stopped.is_set():
            return False
        client.poll(self._tick_s)
        now_ns = self._blocked_until_ns = time.monotonic_ns()
        return now_ns < (phases.end_ns if self._is_closed_loop else phases.drain_end_ns)

    def _note_lag(self, intended_ns: _Times, sent_ns: int) -> None:
        """Only for the measured window, because the first sends wait for connections and pay for everything that
        happens once."""
        if not self._is_closed_loop:
            self.backpressure_sends += int(np.count_nonzero(intended_ns <= self._blocked_until_ns))
        ours = intended_ns[intended_ns > max(self._blocked_until_ns, self._measure_ns - 1)]
        lag_us = (sent_ns - ours) // 1_000
        self.lag.add(lag_us)
        self.late_sends += int(np.count_nonzero(lag_us > LATE_US))

    def _drain(self, client: ProducerClient, phases: Phases) -> None:
        while self._log.completed < self.handed and time.monotonic_ns() < self._context.drain_deadline_ns(phases):
            client.poll(0.01)

    def _close(self) -> None:
        try:
            if self._client is not None:
                self._client.close(CLOSE_TIMEOUT_S)
        except Exception as error:  # a client that cannot close must not hide what was measured
            self._context.add_error(f"producer {self.number}: close: {error}")
        self._log.close()

    def client_metrics(self) -> dict[str, float]:
        return self._client.metrics() if self._client is not None else {}

    def client_effective(self) -> dict[str, str]:
        return self._client.effective() if self._client is not None else {}
