"""A producer whose records are sent inside of transactions: when they begin and end, and what became of their records.

- A transaction begins with the first record that is sent, and ends when the workload's commit interval is over or it
  has `transaction_records` records. The thread that sends waits for its end, as an application does that has one
  transactional producer. What becomes due meanwhile keeps its intended time.
- A planned share of the transactions is aborted instead. Their records are written first, so that readers with
  isolation.level=read_uncommitted get them.
- Nothing of a transaction is told before its end: then all of its records have one outcome and one time. If nobody
  knows whether a commit was carried out, its records are unknown. If nobody asked for a commit, they are aborted,
  whatever else went wrong.
- A client that cannot go on is replaced by one with the same transactional.id, which ends what the first one left open.

Shown by tests/workloads/test_workloads_transactions.py.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from runlog.streams.inflight import RING_SLOTS
from runlog.streams.schema import ABSENT, SendStatus
from workloads.clients.protocol import (
    CONNECT_TIMEOUT_S,
    LOCAL_ERROR,
    TIMED_OUTCOME,
    ClientError,
    OutcomeSink,
    TransactionAborted,
    TransactionalClient,
    TransactionUnknown,
)

TRANSACTION_RECORDS_MAX: Final = RING_SLOTS // 2  # so that the ring never holds a whole one up
RENEWALS_MAX: Final = 50  # clients that a producer uses up before it gives up
END_TIMEOUT_S: Final = 30.0
_CLOSE_OLD_S: Final = 0.5
_NO_ANSWER: Final = -1
_GOLDEN: Final = 0.618_033_988_749_895  # so that the producers do not all abort at the same time

Make = Callable[[OutcomeSink], TransactionalClient]


class TransactionalProducer:
    """A ProducerClient. All methods are called by one thread, only the outcomes come from others."""

    def __init__(
        self,
        make: Make,
        log: OutcomeSink,
        *,
        commit_interval_ms: int,
        records_max: int,
        abort_share: float,
        producer: int,
    ) -> None:
        """`make` gives a client that tells its outcomes to the sink that it gets. `records_max` 0: only ours."""
        self._make, self._log = make, log
        self._interval_ns = commit_interval_ms * 1_000_000
        self._records_max = min(records_max or TRANSACTION_RECORDS_MAX, TRANSACTION_RECORDS_MAX)
        self._abort_share, self._phase = abort_share, producer * _GOLDEN % 1
        self._outcomes = _Outcomes(self._records_max)
        self._client = make(self._outcomes)
        self._renewals = 0
        self._is_open = False
        self._due_ns = 0  # when the open transaction is to end
        self._last_ended_ns = 0
        self._counts = dict.fromkeys(("committed", "aborted as planned", "aborted", "unknown"), 0)
        self._ending_ns = 0

    @property
    def answered(self) -> int:
        """Records of the open transaction that brokers have answered. They wait for nothing but its end."""
        return self._outcomes.answered if self._is_open else 0

    def connect(self, timeout_s: float) -> None:
        self._client.connect(timeout_s)

    def send(self, topic: str, value: bytes, key: bytes | None, seq: int) -> bool:
        if not self._is_open:
            self._begin(seq)
        if not self._client.send(topic, value, key, seq):
            return False
        self._outcomes.count += 1
        if self._outcomes.count >= self._records_max:
            self._end()
        return True

    def poll(self, timeout_s: float) -> None:
        if not self._is_open:
            self._client.poll(timeout_s)
            return
        left_s = (self._due_ns - time.monotonic_ns()) / 1e9
        self._client.poll(max(0.0, min(timeout_s, left_s)))
        if time.monotonic_ns() >= self._due_ns:
            self._end()

    def close(self, timeout_s: float) -> None:
        """A transaction that is still open is aborted."""
        try:
            if self._is_open:
                self._end(timeout_s=timeout_s, is_broken_off=True)
        finally:
            self._client.close(timeout_s)

    def metrics(self) -> dict[str, float]:
        ended = sum(self._counts.values())
        return {
            **self._client.metrics(),
            **{f"transactions {name}": float(count) for name, count in self._counts.items()},
            "transaction end ms, mean": self._ending_ns / 1e6 / ended if ended else 0.0,
            "transactional producers made anew": float(self._renewals),
        }

    def effective(self) -> dict[str, str]:
        return self._client.effective()

    def _begin(self, seq: int) -> None:
        while True:
            try:
                self._client.begin()
                break
            except (TransactionAborted, TransactionUnknown) as error:
                self._renew(error)
        self._outcomes.begin(seq)
        self._due_ns = time.monotonic_ns() + self._interval_ns
        self._is_open = True

    def _end(self, *, timeout_s: float = END_TIMEOUT_S, is_broken_off: bool = False) -> None:
        is_planned = self._is_next_aborted()
        status, code, cause = SendStatus.ACKED, 0, None
        asked_ns = time.monotonic_ns()
        try:
            if is_broken_off or is_planned:
                status, code = SendStatus.ABORTED, LOCAL_ERROR if is_broken_off else 0
                self._client.abort(timeout_s)
            else:
                self._client.commit(timeout_s)
        except TransactionAborted as error:
            status, code = SendStatus.ABORTED, error.code or LOCAL_ERROR  # 0 is for what was planned
        except Exception as error:
            # Without a request for a commit there is none, whoever ends the transaction. With one there may be one,
            # also if the client itself went wrong. Then `close` must not tell that the transaction was aborted.
            status = SendStatus.ABORTED if status is SendStatus.ABORTED else SendStatus.UNKNOWN
            # An unknown send without an error would be one with acks=0.
            code, cause = (error.code if isinstance(error, TransactionUnknown) else 0) or LOCAL_ERROR, error
        self._is_open = False
        self._ending_ns += time.monotonic_ns() - asked_ns
        self._note(status, code)
        if cause is not None and not isinstance(cause, TransactionUnknown):
            raise cause
        if cause is not None and not is_broken_off:
            self._renew(cause)

    def _note(self, status: SendStatus, code: int) -> None:
        # In steps of the run log's unit, so that no two transactions of a producer have the same time.
        ended_ns = max(time.monotonic_ns(), self._last_ended_ns + 1_000)
        self._last_ended_ns = ended_ns
        names = {SendStatus.ACKED: "committed", SendStatus.UNKNOWN: "unknown", SendStatus.ABORTED: "aborted"}
        self._counts[names[status] + (" as planned" if status is SendStatus.ABORTED and not code else "")] += 1
        self._log.timed(self._outcomes.end(status, code, ended_ns))

    def _is_next_aborted(self) -> bool:
        """Spread evenly: of any ten transactions in a row, an abort_share of 0.1 aborts one."""
        ended = sum(self._counts.values())
        return int((ended + 1) * self._abort_share + self._phase) > int(ended * self._abort_share + self._phase)

    def _renew(self, cause: Exception) -> None:
        """ClientError if the next one does not connect, or if too many were of no use."""
        self._renewals += 1
        if self._renewals > RENEWALS_MAX:
            raise ClientError(f"{RENEWALS_MAX} transactional producers were of no more use, the last one: {cause}")
        self._client.close(_CLOSE_OLD_S)
        # What the old one may still tell goes to the sink that it was given.
        self._outcomes = _Outcomes(self._records_max)
        self._client = self._make(self._outcomes)
        self._client.connect(CONNECT_TIMEOUT_S)


class _Outcomes:
    """An OutcomeSink: what the client tells of the records of one transaction, until it has ended."""

    def __init__(self, records_max: int) -> None:
        self._lock = threading.Lock()
        self._rows = np.zeros(records_max, dtype=TIMED_OUTCOME)
        self._first_seq = 0
        self._is_open = False
        self.count = 0  # records that the client took
        self.answered = 0

    def begin(self, first_seq: int) -> None:
        with self._lock:
            self._first_seq, self.count, self.answered, self._is_open = first_seq, 0, 0, True
            self._rows["status"] = _NO_ANSWER
            for name in ("sent_ns", "offset", "append_ms", "partition"):
                self._rows[name] = ABSENT

    def end(self, status: SendStatus, code: int, ended_ns: int) -> NDArray[Any]:
        """The outcomes of all records, given that of the transaction. A record that was refused stays so."""
        with self._lock:
            self._is_open = False
            rows = self._rows[: self.count].copy()
        rows["seq"] = np.arange(self._first_seq, self._first_seq + len(rows))
        decided = rows["status"] != SendStatus.FAILED
        if status is SendStatus.ACKED:
            # aiokafka commits without a record whose send had an error. Then the application knows that the record may
            # be missing. What names a transaction is the time of its end, and this record does not share its fate.
            in_doubt = rows["status"] == SendStatus.UNKNOWN
            rows["acked_ns"][in_doubt] = ABSENT
            decided &= ~in_doubt
        # A commit that was carried out has all other records. If nothing was said of one, its offset is not known.
        rows["offset"][decided & (rows["status"] != SendStatus.ACKED)] = ABSENT
        rows["status"][decided], rows["error"][decided] = status, code
        rows["acked_ns"][decided] = ended_ns
        return rows

    def one(
        self, seq: int, status: SendStatus, error: int, partition: int, offset: int, append_ms: int = ABSENT
    ) -> None:
        with self._lock:
            at = self._place(seq)
            if at is not None:
                self._answer(slice(at, at + 1), status, error, partition, offset, append_ms)
                self.answered += 1

    def many(
        self,
        seqs: Sequence[int],
        status: SendStatus,
        error: int,
        partition: int,
        base_offset: int,
        append_ms: int = ABSENT,
    ) -> None:
        numbers = np.array(seqs, dtype=np.int64)
        offsets = np.arange(base_offset, base_offset + len(numbers)) if base_offset >= 0 else np.full(len(numbers), -1)
        with self._lock:
            at, inside = self._places(numbers)
            self._answer(at, status, error, partition, offsets[inside], append_ms)
            self.answered += len(at)

    def timed(self, outcomes: NDArray[Any]) -> None:
        with self._lock:
            at, inside = self._places(outcomes["seq"])
            self._rows[at] = outcomes[inside]
            self.answered += len(at)

    def _answer(self, at: Any, status: SendStatus, error: int, partition: int, offset: Any, append_ms: int) -> None:
        rows, now_ns = self._rows, time.monotonic_ns()
        rows["status"][at], rows["error"][at], rows["partition"][at] = status, error, partition
        rows["offset"][at], rows["append_ms"][at], rows["acked_ns"][at] = offset, append_ms, now_ns

    def _place(self, seq: int) -> int | None:
        """None for a record of an earlier transaction: its end has said what became of it."""
        at = seq - self._first_seq
        return at if self._is_open and 0 <= at < len(self._rows) else None

    def _places(self, seqs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        at = seqs - self._first_seq
        inside = (at >= 0) & (at < len(self._rows)) & self._is_open
        return at[inside], inside
