"""One consumer user in its own OS thread: reads its partitions from their beginning and logs what it is given."""

from __future__ import annotations

import time

from runlog.payload import parse_fast
from runlog.schema import ABSENT, RECV
from runlog.segment import SegmentWriter
from workloads.clients import make_consumer
from workloads.clients.protocol import ConsumerClient, ReceivedRecord
from workloads.context import CONNECT_TIMEOUT_S, LoadContext

_POLL_S = 0.05
WITHOUT_GROUP = ABSENT


class ConsumerUserLoop:
    """`run` is the thread's body. Consumer k of n reads the partitions p with p % n == k."""

    def __init__(self, context: LoadContext) -> None:
        workload = context.plan.workload
        self._context = context
        self.number = context.claim_number("consumer", workload.consumers)
        self._partitions = list(range(self.number, context.plan.partitions, workload.consumers))
        self.writer_name = f"c{self.number}"
        self._writer = SegmentWriter(context.live, RECV, self.writer_name)
        self.is_ready = False
        self.is_finished = False
        self.received = 0
        self.foreign = 0
        self.last_received_ns = 0

    def run(self) -> None:
        client: ConsumerClient | None = None
        try:
            plan = self._context.plan
            client = make_consumer(plan.client, plan.bootstrap_servers, plan.topic, plan.consumer_properties)
            if self._partitions:
                client.connect(self._partitions, CONNECT_TIMEOUT_S)
            self.is_ready = True
            while self._partitions and not self._context.receiving_stopped.is_set():
                self._log(client.poll(_POLL_S))
        except Exception as error:  # the entry point of a thread: nobody above would hear of it
            self._context.add_error(f"consumer {self.number}: {error}")
        finally:
            self._writer.close()
            self.is_finished = True
            if client is not None:
                client.close()

    def _log(self, records: list[ReceivedRecord]) -> None:
        if not records:
            return
        polled_ns = time.monotonic_ns()
        t0_ns = self._context.plan.t0_monotonic_ns
        polled_us = (polled_ns - t0_ns) // 1_000
        append, number = self._writer.append_recv, self.number
        for partition, offset, value in records:
            parsed = parse_fast(value)
            if parsed is None:
                self.foreign += 1
                append(number, WITHOUT_GROUP, partition, offset, ABSENT, ABSENT, ABSENT, ABSENT, polled_us, 0)
                continue
            producer, incarnation, seq, intended_ns, crc_ok = parsed
            if not crc_ok and not (producer < 1 << 15 and incarnation < 1 << 31 and max(seq, intended_ns) < 1 << 63):
                producer = incarnation = seq = ABSENT  # a damaged header may hold what no column can
                intended_ns = t0_ns
            intended_us = (intended_ns - t0_ns) // 1_000
            append(number, WITHOUT_GROUP, partition, offset, producer, incarnation, seq, intended_us, polled_us, crc_ok)
        self.received += len(records)
        self.last_received_ns = polled_ns
