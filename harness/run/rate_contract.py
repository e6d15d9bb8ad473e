"""Whether a cell kept the contract of a rate search. Computed from its run log alone, without Spark, between two cells.

- Corrected p99, with failed and unknown sends as infinitely late.
- No acknowledged record lost, duplicated or reordered.
- A backlog that does not grow.
- A generator with headroom.

The schedule says what was due. So records that were never sent count too: as infinitely late, as backlog, and as the
generator's fault only if the client had room for them.

The run log is read in chunks. What stays of a row are two bits, and the latencies of the slowest hundredth, so the
memory of a try does not decide how long a cell may be. Shown by tests/harness/test_harness_search.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.suite import Contract
from runlog.quality.criteria import Criteria
from runlog.records.load import Health
from runlog.records.search import Clause
from runlog.streams.parquet import column_chunks, row_count
from runlog.streams.schema import SendStatus
from workloads.model import Workload
from workloads.schedule import Schedule, Share, build

_SLOT_US: Final = 100_000
_SHORTFALL_MAX: Final = 0.05  # If more of what was due was not handed over, it was another rate.
_ENDLESS_US: Final = np.iinfo(np.int64).max
_IDENTITY: Final = ("producer", "incarnation", "seq")
_ASKED: Final[Mapping[str, tuple[str, ...]]] = {
    "send": (*_IDENTITY, "status", "intended_us", "acked_us"),
    "log": (*_IDENTITY, "partition", "offset"),
}
# How many bits of each byte are set.
_ONES: Final = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.uint8)
Columns = Mapping[str, npt.NDArray[np.int64]]
_Start = tuple[int, int]  # producer and incarnation


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    passed: bool
    broken: tuple[Clause, ...]
    reasons: tuple[str, ...]
    p99_ms: float | None  # None: beyond what was acknowledged
    acked_per_s: float
    backlog_slope_share: float  # growth of the backlog over the rate


@dataclass(frozen=True, slots=True, kw_only=True)
class _Due:
    """What the schedule had due, beside what the run log has."""

    schedule: Schedule
    measure_ns: int  # when the measured window begins, on the schedule's own axis
    in_window: int
    missing: int  # due in the window, and never handed over

    def until(self, offset_us: float) -> int:
        """Records due before a time of the measured window."""
        return self.schedule.count_until(self.measure_ns + round(offset_us * 1_000) - 1)


def evaluate(
    run_dir: Path, cell_id: str, *, contract: Contract, workload: Workload, seed: int,
    window_us: tuple[int, int] | None, health: Health, ceiling_per_s: float | None = None,
) -> Evaluation:  # fmt: skip
    """`workload` and `seed` are those of the cell. `ceiling_per_s` is what the generator reaches by itself, if that was
    measured."""
    if window_us is None:
        return _not_measured("the cell has no measured window")
    send, log = (column_chunks(run_dir, stream, cell_id, names) for stream, names in _ASKED.items())
    return judge(
        send, log, sends=row_count(run_dir, "send", cell_id), contract=contract, workload=workload, seed=seed,
        window_us=window_us, health=health, ceiling_per_s=ceiling_per_s,
    )  # fmt: skip


def _not_measured(why: str) -> Evaluation:
    return Evaluation(
        passed=False, broken=(Clause.LOAD,), reasons=(why,), p99_ms=None, acked_per_s=0.0, backlog_slope_share=0.0
    )  # fmt: skip


def judge(
    send: Iterable[Columns], log: Iterable[Columns], *, sends: int, contract: Contract, workload: Workload, seed: int,
    window_us: tuple[int, int], health: Health, ceiling_per_s: float | None = None,
) -> Evaluation:  # fmt: skip
    """`send` and `log` chunk by chunk, each partition of `log` by offset, as the final read wrote it. `sends`: rows of
    `send`."""
    rate_per_s = workload.rate_per_s
    sent, damage = _Sent(window_us, sends), _Damage()
    for chunk in send:
        sent.take(chunk)
        damage.take_sent(chunk)
    due = _due(sent, workload, seed, window_us)
    if not due.in_window:
        return _not_measured("no record was due in the measured window")
    for chunk in log:
        damage.take_logged(chunk)
    p99_us = sent.p99_us(due.missing)
    slope = sent.backlog_slope(due)
    # How many records each producer never handed over that were due while its client had no room.
    refused = min(due.missing, health.unsent_for_space or 0)
    clauses = [
        *_generator(due, refused, rate_per_s, health, ceiling_per_s),
        *_latency(p99_us, contract),
        *_backlog(slope / rate_per_s, due, refused, contract),
        *damage.clauses(),
    ]
    return Evaluation(
        passed=not clauses,
        broken=tuple(name for name, _ in clauses),
        reasons=tuple(reason for _, reason in clauses),
        p99_ms=p99_us / 1000 if p99_us < _ENDLESS_US else None,
        acked_per_s=sent.acked_in_window / ((window_us[1] - window_us[0]) / 1e6),
        backlog_slope_share=slope / rate_per_s,
    )


class _Sent:
    """What the rows of `send` say of the measured window."""

    def __init__(self, window_us: tuple[int, int], sends: int) -> None:
        """`sends`: how many rows will come at most."""
        self._start_us, self._end_us = window_us
        self._edges = np.linspace(*window_us, max(2, (self._end_us - self._start_us) // _SLOT_US) + 1)
        # The index is the first edge after their intended time.
        self._begun = np.zeros(len(self._edges) + 1, dtype=np.int64)
        self._done = np.zeros_like(self._begun)
        self._slowest_us = np.zeros(0, dtype=np.int64)  # p99 is among them, however many never were acknowledged
        self._slowest_max = sends // 100 + 2
        self.handed = 0
        self.handed_in_window = 0
        self.acked_in_window = 0

    def take(self, send: Columns) -> None:
        acked = send["status"] == SendStatus.ACKED
        inside = (send["intended_us"] >= self._start_us) & (send["intended_us"] < self._end_us)
        in_time = acked & (send["acked_us"] >= self._start_us) & (send["acked_us"] < self._end_us)
        self.handed += len(inside)
        self.handed_in_window += int(inside.sum())
        self.acked_in_window += int(in_time.sum())
        self._begun += self._by_edge(send["intended_us"])
        self._done += self._by_edge(send["acked_us"][acked])
        latency_us = np.where(acked, send["acked_us"] - send["intended_us"], _ENDLESS_US)[inside]
        slowest_us = np.concatenate([self._slowest_us, latency_us])
        surplus = max(0, len(slowest_us) - self._slowest_max)
        self._slowest_us = np.partition(slowest_us, surplus)[surplus:] if surplus else slowest_us

    def _by_edge(self, times_us: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.bincount(np.searchsorted(self._edges, times_us, side="right"), minlength=len(self._begun))

    def p99_us(self, missing: int) -> int:
        """p99 of the records that were due. This many of them are infinitely late."""
        place = math.ceil(0.99 * (self.handed_in_window + missing - 1) - 1e-9)
        from_the_end = self.handed_in_window - place
        return int(np.sort(self._slowest_us)[-from_the_end]) if from_the_end > 0 else _ENDLESS_US

    def backlog_slope(self, due: _Due) -> float:
        """How many records per second due records outgrow acknowledged ones, by least squares over the window."""
        begun, done = (np.cumsum(counts)[:-1] for counts in (self._begun, self._done))
        if due.missing:
            begun = np.array([due.until(edge - self._start_us) for edge in self._edges.tolist()])
        seconds = (self._edges - self._start_us) / 1e6
        return float(np.polyfit(seconds, (begun - done).astype(np.float64), 1)[0])


def _due(sent: _Sent, workload: Workload, seed: int, window_us: tuple[int, int]) -> _Due:
    """The run log has a row for each record that was handed over, so the rest of the schedule is missing. If the window
    was cut short, only what was due in it counts."""
    schedule = Share(build(workload, seed), index=0, of=1, burst=workload.records_per_burst)
    measure_ns = workload.warmup_ms * 1_000_000
    begun = schedule.count_until(measure_ns - 1)
    in_window = schedule.count_until(measure_ns + (window_us[1] - window_us[0]) * 1_000 - 1) - begun
    missing = max(0, min(schedule.total - sent.handed, in_window - sent.handed_in_window))
    in_window = max(in_window, sent.handed_in_window)
    return _Due(schedule=schedule, measure_ns=measure_ns, in_window=in_window, missing=missing)


def _generator(
    due: _Due, refused: int, rate_per_s: float, health: Health, ceiling_per_s: float | None
) -> list[tuple[Clause, str]]:
    """The client was the limit. Then it is not the cluster's fault, and the rate is that of the client."""
    criteria = Criteria()
    busiest = health.busiest_process_cpu_share or 0.0
    if busiest >= criteria.generator_cpu_share_max:
        return [(Clause.GENERATOR, f"a load process used {busiest:.0%} of a core: the client is the limit")]
    if ceiling_per_s and rate_per_s >= criteria.generator_ceiling_share_max * ceiling_per_s:
        near = f"{rate_per_s / ceiling_per_s:.0%} of the {ceiling_per_s:,.0f} records/s"
        return [(Clause.GENERATOR, f"the rate is {near} that the client reaches against a broker that stores nothing")]
    if due.missing - refused > _SHORTFALL_MAX * due.in_window:
        handed = due.in_window - due.missing
        return [(Clause.GENERATOR, f"only {handed:,} of {due.in_window:,} records were handed to the client")]
    return []


def _latency(p99_us: int, contract: Contract) -> list[tuple[Clause, str]]:
    if p99_us <= contract.p99_ms * 1000:
        return []
    shown = "of records never acknowledged" if p99_us == _ENDLESS_US else f"{p99_us / 1000:,.1f} ms"
    return [(Clause.LATENCY, f"p99 {shown}, allowed {contract.p99_ms:g} ms")]


def _backlog(share: float, due: _Due, refused: int, contract: Contract) -> list[tuple[Clause, str]]:
    """What the client had no room for until the drain had ended is a backlog that the window left, however it grew."""
    reasons = []
    if share > contract.backlog_growth_share:
        reasons.append(f"the backlog grew by {share:.1%} of the rate, allowed {contract.backlog_growth_share:.1%}")
    if refused > contract.backlog_growth_share * due.in_window:
        records = f"{refused:,} of {due.in_window:,} records"
        reasons.append(f"for {records} the client never had room: the cluster took no more")
    return [(Clause.BACKLOG, "; ".join(reasons))] if reasons else []


class _Damage:
    """Acknowledged records that the log does not have, records that it has twice, and records out of order."""

    def __init__(self) -> None:
        self._acked: dict[_Start, _Bits] = {}
        self._logged: dict[_Start, _Bits] = {}
        self._last_seq: dict[tuple[int, int, int], int] = {}  # The key is producer, incarnation and partition.
        self._doubled = 0
        self._swapped = 0

    def take_sent(self, send: Columns) -> None:
        for start, rows in _groups(send, ("producer", "incarnation")):
            own = self._acked.setdefault((start[0], start[1]), _Bits())
            own.reach(int(send["seq"][rows].max()))
            own.mark(send["seq"][rows][send["status"][rows] == SendStatus.ACKED])

    def take_logged(self, log: Columns) -> None:
        for (producer, incarnation, partition), rows in _groups(log, ("producer", "incarnation", "partition")):
            acked = self._acked.get((producer, incarnation))
            if acked is None:
                continue  # no producer of this cell sent them: the report tells of them
            seqs = log["seq"][rows]
            logged = self._logged.setdefault((producer, incarnation), _Bits())
            self._doubled += logged.mark(seqs[(seqs >= 0) & (seqs <= acked.highest)])
            place = (producer, incarnation, partition)
            steps = np.diff(seqs, prepend=self._last_seq.get(place, seqs[0]))
            self._swapped += int((steps < 0).sum())
            self._last_seq[place] = int(seqs[-1])

    def clauses(self) -> list[tuple[Clause, str]]:
        lost = sum(own.count_without(self._logged.get(start, _Bits())) for start, own in self._acked.items())
        damage = (
            (lost, "acknowledged and lost"),
            (self._doubled, "doubled"),
            (self._swapped, "out of order"),
        )
        return [(Clause.DAMAGE, f"{count} records {what}") for count, what in damage if count]


def _groups(columns: Columns, names: tuple[str, ...]) -> Iterator[tuple[tuple[int, ...], npt.NDArray[np.int64]]]:
    """The rows with equal values of these columns, in their order."""
    if not len(columns[names[0]]):
        return
    order = np.lexsort([columns[name] for name in names])  # it keeps the order of equal rows
    values = np.stack([columns[name][order] for name in names])
    edges = np.flatnonzero((np.diff(values) != 0).any(axis=0)) + 1
    for rows in np.split(order, edges):
        yield tuple(int(columns[name][rows[0]]) for name in names), rows


class _Bits:
    """A set of sequence numbers, one bit each."""

    def __init__(self) -> None:
        self._bytes = np.zeros(0, dtype=np.uint8)
        self.highest = -1  # that it has room for

    def reach(self, seq: int) -> None:
        """Makes room up to this number."""
        self.highest = max(self.highest, seq)
        size = self.highest // 8 + 1
        if size > len(self._bytes):  # It grows by half, because the rows of a stream come in order.
            self._bytes = np.pad(self._bytes, (0, max(size, len(self._bytes) * 3 // 2) - len(self._bytes)))

    def mark(self, seqs: npt.NDArray[np.int64]) -> int:
        """How many of them were marked already, or come again among them."""
        if not len(seqs):
            return 0
        self.reach(int(seqs.max()))
        first = int(seqs.min()) // 8
        flags = np.zeros((int(seqs.max()) // 8 + 1 - first) * 8, dtype=np.bool_)
        flags[seqs - first * 8] = True
        new, place = np.packbits(flags), slice(first, first + len(flags) // 8)
        again = len(seqs) - int(flags.sum()) + _count(self._bytes[place] & new)
        self._bytes[place] |= new
        return again

    def count_without(self, other: _Bits) -> int:
        """How many are here and not there."""
        both = min(len(self._bytes), len(other._bytes))
        return _count(self._bytes) - _count(self._bytes[:both] & other._bytes[:both])


def _count(packed: npt.NDArray[np.uint8]) -> int:
    return int(_ONES[packed].sum())
