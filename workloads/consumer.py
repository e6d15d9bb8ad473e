"""One consumer user in its own OS thread: a member of a reader group, which logs the records that it gets.

A reader reads everything once. Its consumers share the partitions, either fixed or through Kafka's group protocol. A
catch-up reader begins late, behind a backlog. A slow application is simulated by a wait after each
poll. The run log has every record that came, also those that a reader with `deduplicate` removes.
"""

from __future__ import annotations

import time

from runlog.streams.payload import parse_fast
from runlog.streams.schema import ABSENT, RECV
from runlog.streams.segment import SegmentWriter
from workloads.clients import make_consumer
from workloads.clients.protocol import CONNECT_TIMEOUT_S, ConsumerClient, Polled
from workloads.context import LoadContext
from workloads.outcomes import wall_clock_offset_us
from workloads.reader_group import ReaderGroup
from workloads.redelivery import RedeliveryFilter

_POLL_S = 0.05
_SLICE_S = 0.1  # a wait is cut into pieces, so that a stop is noticed


class ConsumerUserLoop:
    """`run` is the thread's body. Member k of n of a reader reads the partitions p with p % n == k."""

    def __init__(self, context: LoadContext) -> None:
        plan, workload = context.plan, context.plan.workload
        self._context = context
        self.number = context.claim_number("consumer", plan.consumers_here)
        self.reader_number, member = reader_of(workload.reader_groups, self.number)
        self.reader = workload.reader_groups[self.reader_number]
        topics = plan.topic_names
        everything = [(topic, partition) for topic in topics for partition in range(plan.partitions)]
        self._partitions = everything[member :: self.reader.consumers]
        self._first_partition = {topic: index * plan.partitions for index, topic in enumerate(topics)}
        self.writer_name = f"c{self.number}"
        self._writer = SegmentWriter(context.live, RECV, self.writer_name)
        self._filter: RedeliveryFilter | None = None
        self.is_ready = False
        self.is_finished = False
        self.received = 0
        self.foreign = 0
        self.last_received_ns = 0

    def run(self) -> None:
        client: ConsumerClient | None = None
        try:
            has_work = bool(self._partitions) or self.reader.mode == "group"
            is_late = self.reader.start_after_ms is not None
            # Made now in any case, so that a setting that the client lacks is known before anything is measured.
            client = make_consumer(self._context.plan.client, self._context.consumer_setup(self.reader))
            self._filter = self._context.redelivery_filter(self.reader_number)
            if has_work and not is_late:
                client.connect(self._partitions, CONNECT_TIMEOUT_S)
            self.is_ready = True
            if has_work and is_late:
                has_work = self._wait_turn()
                if has_work:
                    client.connect(self._partitions, CONNECT_TIMEOUT_S)
            while has_work and not self._context.receiving_stopped.is_set():
                polled = client.poll(_POLL_S)
                if polled.records:
                    self._log(polled)
                    self._process(self._handed_on(polled))
        except Exception as error:  # the entry point of a thread: no caller would get the error
            self._context.add_error(f"consumer {self.number}: {error}")
        finally:
            try:
                self._writer.close()
            except OSError as error:
                self._context.add_error(f"consumer {self.number}: its run log could not be closed: {error}")
            self.is_finished = True
            if client is not None:
                client.close()

    def _wait_turn(self) -> bool:
        """Until the catch-up begins. False when the run is over before."""
        phases = self._context.wait_begin()
        if phases is None or self.reader.start_after_ms is None:
            return False
        start_ns = phases.measure_ns + self.reader.start_after_ms * 1_000_000
        while (left_s := (start_ns - time.monotonic_ns()) / 1e9) > 0:
            if self._context.receiving_stopped.is_set():
                return False
            time.sleep(min(left_s, _SLICE_S))
        return True

    def _handed_on(self, polled: Polled) -> int:
        """How many records the application gets. If the reader removes records that came before, these do not count."""
        if self._filter is None:
            return len(polled.records)
        parsed = [parse_fast(value) for _, _, _, value, _ in polled.records]
        identities = [(each[0], each[1], each[2]) for each in parsed if each is not None]
        # A record of somebody else is not counted.
        return sum(self._filter.keep(identities)) + len(parsed) - len(identities)

    def _process(self, records: int) -> None:
        """The application's work, as a wait: it takes time and no CPU."""
        left_s = records * self.reader.processing_us / 1e6
        while left_s > 0 and not self._context.receiving_stopped.is_set():
            time.sleep(min(left_s, _SLICE_S))
            left_s -= _SLICE_S
            self.last_received_ns = time.monotonic_ns()  # it is working, so it is not idle

    def _log(self, polled: Polled) -> None:
        t0_ns = self._context.plan.t0_monotonic_ns
        header_t0_ns = t0_ns + self._context.plan.header_shift_ns
        polled_us = (polled.polled_ns - t0_ns) // 1_000
        has_append_time = self._context.plan.log_append_time
        offset_us = wall_clock_offset_us(t0_ns)
        append, number, reader, generation = (
            self._writer.append_recv, self.number, self.reader_number, polled.generation,
        )  # fmt: skip
        appended_us = ABSENT
        for topic, partition, offset, value, timestamp_ms in polled.records:
            partition += self._first_partition[topic]
            if has_append_time:
                appended_us = timestamp_ms * 1_000 - offset_us
            parsed = parse_fast(value)
            if parsed is None:
                self.foreign += 1
                append(
                    number, generation, partition, offset, ABSENT, ABSENT, ABSENT, ABSENT, polled_us, 0,
                    appended_us, reader,
                )  # fmt: skip
                continue
            producer, incarnation, seq, intended_ns, crc_ok = parsed
            if not crc_ok and not (producer < 1 << 15 and incarnation < 1 << 31 and max(seq, intended_ns) < 1 << 63):
                producer = incarnation = seq = ABSENT  # a damaged header may hold numbers that fit into no column
                intended_ns = header_t0_ns
            intended_us = (intended_ns - header_t0_ns) // 1_000
            append(
                number, generation, partition, offset, producer, incarnation, seq, intended_us, polled_us, crc_ok,
                appended_us, reader,
            )  # fmt: skip
        self.received += len(polled.records)
        self.last_received_ns = polled.polled_ns


def reader_of(readers: tuple[ReaderGroup, ...], consumer: int) -> tuple[int, int]:
    """(number of the reader, member of it) for a consumer numbered over all readers."""
    for number, reader in enumerate(readers):
        if consumer < reader.consumers:
            return number, consumer
        consumer -= reader.consumers
    raise ValueError(f"consumer {consumer} is beyond all readers")
