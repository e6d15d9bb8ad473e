"""The sink of one producer: each outcome that its client reports becomes one row of the run log.

Owns the ring of sends in flight, the writer and the lock between them; outcomes may come from a thread of the client
library. With several topics the row's partition is topic number * partitions + partition, dense over the cell.
Shown by tests/workloads/test_workloads_outcomes.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from runlog.streams.inflight import InflightRing
from runlog.streams.schema import ABSENT, SEND, SendStatus
from runlog.streams.segment import SegmentsFull, SegmentWriter, live_row_dtype

_Seq = TypeVar("_Seq", int, NDArray[np.int64])
_ROW = live_row_dtype(SEND)
_COMPARISONS_MAX: Final = 8
_UNINTERRUPTED_NS: Final = 20_000  # three readings take less than 1,000 where nothing comes between


def topic_of(producer: int, seq: _Seq, topics: int) -> _Seq:
    """Records take the topics in turn. Producers begin with different topics. `seq` may be an array."""
    return (seq + producer) % topics


class OutcomeLog:
    """An OutcomeSink. `hand_over` is called by the sending thread only."""

    def __init__(
        self,
        live: Path,
        *,
        producer: int,
        incarnation: int,
        t0_ns: int,
        topics: int,
        partitions: int,
        log_append_time: bool,
        on_problem: Callable[[str], object],
    ) -> None:
        """`on_problem` is called once, with the first thing that could not be written down."""
        self._producer, self._incarnation, self._t0_ns = producer, incarnation, t0_ns
        self._topics, self._partitions = topics, partitions
        self._log_append_time = log_append_time
        self._ring = InflightRing(live, producer=producer, incarnation=incarnation)
        self.writer_name = f"p{producer}i{incarnation}"
        self._writer = SegmentWriter(live, SEND, self.writer_name)
        self._on_problem: Callable[[str], object] | None = on_problem
        self._lock = threading.Lock()
        self.in_flight_max = self._ring.slots
        self.completed = 0

    def hand_over(self, first_seq: int, intended_us: NDArray[np.int64], sent_ns: int, sizes: NDArray[np.int32]) -> None:
        """Note consecutive sends, before the client is called."""
        with self._lock:
            self._ring.record_many(first_seq, intended_us, (sent_ns - self._t0_ns) // 1_000, sizes)

    def take_back(self, first_seq: int, count: int) -> None:
        """Sends that were noted, but were not handed over and never will be."""
        with self._lock:
            self._ring.erase(first_seq, count)

    def one(
        self, seq: int, status: SendStatus, error: int, partition: int, offset: int, append_ms: int = ABSENT
    ) -> None:
        acked_us = (time.monotonic_ns() - self._t0_ns) // 1_000
        appended_us = self._appended_us(append_ms)
        if partition >= 0 and self._topics > 1:
            partition += topic_of(self._producer, seq, self._topics) * self._partitions
        with self._lock:
            intended_us, sent_us, size_bytes = self._ring.take(seq)
            try:
                self._writer.append_send(
                    self._producer, self._incarnation, seq, partition, status, error, size_bytes,
                    intended_us, sent_us, acked_us, offset, appended_us,
                )  # fmt: skip
            except (OSError, SegmentsFull) as problem:
                self._tell(f"outcomes of sends could not be written down: {problem}")
            self.completed += 1

    def many(
        self,
        seqs: Sequence[int],
        status: SendStatus,
        error: int,
        partition: int,
        base_offset: int,
        append_ms: int = ABSENT,
    ) -> None:
        acked_us = (time.monotonic_ns() - self._t0_ns) // 1_000
        numbers = np.array(seqs, dtype=np.int64)
        rows = self._rows(numbers)
        rows["status"], rows["error"] = status, error
        rows["partition"] = self._dense(numbers, partition)
        rows["acked_us"], rows["appended_us"] = acked_us, self._appended_us(append_ms)
        rows["offset"] = np.arange(base_offset, base_offset + len(numbers)) if base_offset >= 0 else ABSENT
        self._complete(numbers, rows)

    def timed(self, outcomes: NDArray[Any]) -> None:
        numbers = outcomes["seq"]
        rows = self._rows(numbers)
        for name in ("status", "error", "offset"):
            rows[name] = outcomes[name]
        rows["partition"] = self._dense(numbers, outcomes["partition"])
        rows["acked_us"] = self._since_start_us(outcomes["acked_ns"])
        rows["appended_us"] = ABSENT
        if self._log_append_time:
            append_ms = outcomes["append_ms"]
            known = append_ms >= 0
            rows["appended_us"][known] = append_ms[known] * 1_000 - wall_clock_offset_us(self._t0_ns)
        self._complete(numbers, rows, sent_us=self._since_start_us(outcomes["sent_ns"]))

    def _since_start_us(self, times_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        since_us: NDArray[np.int64] = (times_ns - self._t0_ns) // 1_000
        return since_us if times_ns.min() >= 0 else np.where(times_ns < 0, ABSENT, since_us)

    def prepare(self) -> None:
        """Called now and then from the main thread, so that the next file of the run log exists before it is needed."""
        self._writer.prepare()

    def close(self) -> None:
        with self._lock:
            try:
                self._writer.close()
            except OSError as problem:
                self._tell(f"its run log could not be closed: {problem}")
            self._ring.close()

    def _tell(self, problem: str) -> None:
        """Whoever reports an outcome is a thread of a client library, which may swallow an error. A send without a row
        stays in the ring, so it is unknown and not lost. It counts as completed, because nobody will say more of it."""
        tell, self._on_problem = self._on_problem, None
        if tell is not None:
            tell(problem)

    def _rows(self, seqs: NDArray[np.int64]) -> NDArray[Any]:
        rows = np.zeros(len(seqs), dtype=_ROW)
        rows["producer"], rows["incarnation"], rows["seq"] = self._producer, self._incarnation, seqs
        return rows

    def _dense(self, seqs: NDArray[np.int64], partition: int | NDArray[np.int32]) -> int | NDArray[np.int64]:
        if self._topics == 1:
            return partition  # type: ignore[return-value]  # numpy widens it when it is stored
        base = topic_of(self._producer, seqs, self._topics) * self._partitions
        return np.where(np.asarray(partition) >= 0, base + partition, ABSENT)

    def _complete(
        self, seqs: NDArray[np.int64], rows: NDArray[Any], *, sent_us: NDArray[np.int64] | None = None
    ) -> None:
        with self._lock:
            taken = self._ring.take_many(seqs)
            rows["intended_us"], rows["size_bytes"] = taken["intended_us"], taken["size_bytes"]
            if sent_us is None:
                rows["sent_us"] = taken["sent_us"]
            else:
                rows["sent_us"] = sent_us if sent_us.min() >= 0 else np.where(sent_us < 0, taken["sent_us"], sent_us)
            try:
                self._writer.append_rows(rows)
            except (OSError, SegmentsFull) as problem:
                self._tell(f"outcomes of sends could not be written down: {problem}")
            self.completed += len(rows)

    def _appended_us(self, append_ms: int) -> int:
        if append_ms < 0 or not self._log_append_time:
            return ABSENT
        return append_ms * 1_000 - wall_clock_offset_us(self._t0_ns)


def wall_clock_offset_us(t0_ns: int) -> int:
    """The difference between microseconds of the wall clock and those of the run. It is read each time, because the
    wall clock of a host is slewed.

    A busy host may take the processor away between two readings, and an append would seem later than its
    acknowledgement. So the wall clock is read between two readings of the other, and again if these are far apart."""
    tightest_ns, offset_ns = 1 << 62, 0
    for _ in range(_COMPARISONS_MAX):
        before_ns = time.monotonic_ns()
        wall_ns = time.time_ns()
        apart_ns = time.monotonic_ns() - before_ns
        if apart_ns < tightest_ns:
            tightest_ns, offset_ns = apart_ns, wall_ns - before_ns - apart_ns // 2
        if apart_ns <= _UNINTERRUPTED_NS:
            break
    return (offset_ns + t0_ns) // 1_000
