"""Whether a cell kept the contract of a rate search. Computed from its run log alone, without Spark, between two cells.

- Corrected p99, with failed and unknown sends as infinitely late.
- No acknowledged record lost, duplicated or reordered.
- A backlog that does not grow.
- A generator with headroom.

The schedule says what was due. So records that were never sent count too: as infinitely late, as backlog, and as the
generator's fault only if the client had room for them.

The run log is read in chunks, several times over, and nothing that stays of a chunk grows with the run log. Latencies
are counted by whole steps, and then those of one step to the microsecond. Which records are where is told by bits, for
a window of sequence numbers at a time. So a cell may be of any length. Shown by tests/harness/test_harness_search.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.suite import Contract
from runlog.quality.criteria import CRITERIA
from runlog.records.load import Health
from runlog.records.search import Clause
from runlog.streams.parquet import column_chunks
from runlog.streams.schema import SendStatus
from runlog.streams.seq_bits import BITS_MAX, SeqBits, Start, windows
from workloads.model import Workload
from workloads.schedule import Schedule, Share, build

_SLOT_US: Final = 100_000
_SLOTS_MAX: Final = 6_000  # Ten minutes. The slots of a longer cell are wider.
_SHORTFALL_MAX: Final = 0.05  # If more of what was due was not handed over, it was another rate.
_ENDLESS_US: Final = np.iinfo(np.int64).max
_STEP_BITS: Final = 20  # Latencies are counted by steps of a second, and inside of one step by microseconds.
_STEPS: Final = 1 << 20  # Twelve days. Whatever is later counts as that.
_IDENTITY: Final = ("producer", "incarnation", "seq")
_ASKED: Final[Mapping[str, tuple[str, ...]]] = {
    "send": (*_IDENTITY, "status", "error", "intended_us", "acked_us"),
    "log": (*_IDENTITY, "partition", "offset"),
}
Columns = Mapping[str, npt.NDArray[np.int64]]
# Reads a stream once, chunk by chunk. With a range (first, end) of sequence numbers, rows of others may be left out.
Reading = Callable[[tuple[int, int] | None], Iterable[Columns]]


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

    def reading(stream: str) -> Reading:
        return lambda seqs: column_chunks(run_dir, stream, cell_id, _ASKED[stream], seqs=seqs)

    return judge(
        reading("send"), reading("log"), contract=contract, workload=workload, seed=seed, window_us=window_us,
        health=health, ceiling_per_s=ceiling_per_s,
    )  # fmt: skip


def _not_measured(why: str) -> Evaluation:
    return Evaluation(
        passed=False, broken=(Clause.LOAD,), reasons=(why,), p99_ms=None, acked_per_s=0.0, backlog_slope_share=0.0
    )  # fmt: skip


def judge(
    send: Reading, log: Reading, *, contract: Contract, workload: Workload, seed: int, window_us: tuple[int, int],
    health: Health, ceiling_per_s: float | None = None, bits_max: int = BITS_MAX,
) -> Evaluation:  # fmt: skip
    """Each partition of `log` comes by offset, as the final read wrote it. `bits_max` bounds how many records are told
    apart at a time."""
    rate_per_s = workload.rate_per_s
    sent = _Sent(window_us)
    for chunk in send(None):
        sent.take(chunk)
    due = _due(sent, workload, seed, window_us)
    if not due.in_window:
        return _not_measured("no record was due in the measured window")
    damage = _damage(send, log, sent.highest, bits_max)
    p99_us = _p99_us(send, sent, due.missing)
    slope = sent.backlog_slope(due)
    # How many records each producer never handed over that were due while its client had no room.
    refused = min(due.missing, health.unsent_for_space or 0)
    clauses = [
        *_generator(due, refused, rate_per_s, health, ceiling_per_s),
        *_latency(p99_us, contract),
        *_backlog(slope / rate_per_s, due, refused, contract),
        *damage,
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

    def __init__(self, window_us: tuple[int, int]) -> None:
        self._start_us, self._end_us = window_us
        slots = min(_SLOTS_MAX, max(2, (self._end_us - self._start_us) // _SLOT_US))
        self._edges = np.linspace(*window_us, slots + 1)
        # The index is the first edge after their intended time.
        self._begun = np.zeros(len(self._edges) + 1, dtype=np.int64)
        self._done = np.zeros_like(self._begun)
        self._steps = np.zeros(_STEPS, dtype=np.int64)  # of those that were acknowledged; the others rank after them
        self.highest: dict[Start, int] = {}  # sequence number of each producer and incarnation
        self.handed = 0
        self.handed_in_window = 0
        self.aborted_in_window = 0  # as the workload planned it: nobody waits for them
        self.acked_in_window = 0

    def take(self, send: Columns) -> None:
        acked = send["status"] == SendStatus.ACKED
        in_time = acked & (send["acked_us"] >= self._start_us) & (send["acked_us"] < self._end_us)
        is_planned = (send["status"] == SendStatus.ABORTED) & (send["error"] == 0)
        self.handed += len(acked)
        self.aborted_in_window += int((self._inside(send) & is_planned).sum())
        self.handed_in_window += int(self._inside(send).sum())
        self.acked_in_window += int(in_time.sum())
        self._begun += self._by_edge(send["intended_us"])
        self._done += self._by_edge(send["acked_us"][acked | is_planned])
        _count(self._steps, self.latencies_us(send) >> _STEP_BITS)
        for (producer, incarnation), rows in _groups(send, ("producer", "incarnation")):
            start = producer, incarnation
            self.highest[start] = max(self.highest.get(start, -1), int(send["seq"][rows].max()))

    def _inside(self, send: Columns) -> npt.NDArray[np.bool_]:
        return (send["intended_us"] >= self._start_us) & (send["intended_us"] < self._end_us)

    def latencies_us(self, send: Columns) -> npt.NDArray[np.int64]:
        """Of the records that were due in the window and acknowledged."""
        counted = self._inside(send) & (send["status"] == SendStatus.ACKED)
        latencies_us: npt.NDArray[np.int64] = (send["acked_us"] - send["intended_us"])[counted]
        return latencies_us.clip(0, (_STEPS << _STEP_BITS) - 1)

    def _by_edge(self, times_us: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.bincount(np.searchsorted(self._edges, times_us, side="right"), minlength=len(self._begun))

    def step_of(self, place: int) -> tuple[int, int] | None:
        """The step of latency in which the record of this place is, and its place there. The fastest one has place 0.
        None if that record never was acknowledged."""
        until = np.cumsum(self._steps)
        if place >= until[-1]:
            return None
        step = int(np.searchsorted(until, place, side="right"))
        return step, place - (int(until[step - 1]) if step else 0)

    def backlog_slope(self, due: _Due) -> float:
        """How many records per second due records outgrow acknowledged ones, by least squares over the window."""
        begun, done = (np.cumsum(counts)[:-1] for counts in (self._begun, self._done))
        if due.missing:
            begun = np.array([due.until(edge - self._start_us) for edge in self._edges.tolist()])
        seconds = (self._edges - self._start_us) / 1e6
        return float(np.polyfit(seconds, (begun - done).astype(np.float64), 1)[0])


def _p99_us(send: Reading, sent: _Sent, missing: int) -> int:
    """p99 of the records that were due. This many of them are infinitely late. `send` is read once more, for the
    latencies in one step."""
    awaited = sent.handed_in_window - sent.aborted_in_window
    found = sent.step_of(math.ceil(0.99 * (awaited + missing - 1) - 1e-9))
    if found is None:
        return _ENDLESS_US
    step, place = found
    counts = np.zeros(1 << _STEP_BITS, dtype=np.int64)
    for chunk in send(None):
        latencies_us = sent.latencies_us(chunk)
        in_step = latencies_us[latencies_us >> _STEP_BITS == step] & ((1 << _STEP_BITS) - 1)
        _count(counts, in_step)
    return (step << _STEP_BITS) + int(np.searchsorted(np.cumsum(counts), place, side="right"))


def _count(counts: npt.NDArray[np.int64], places: npt.NDArray[np.int64]) -> None:
    """One more at each of these places. The work is that of the places and not of all counts."""
    found, times = np.unique(places, return_counts=True)
    counts[found] += times


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
    busiest = health.busiest_process_cpu_share or 0.0
    if busiest >= CRITERIA.generator_cpu_share_max:
        return [(Clause.GENERATOR, f"a load process used {busiest:.0%} of a core: the client is the limit")]
    if ceiling_per_s and rate_per_s >= CRITERIA.generator_ceiling_share_max * ceiling_per_s:
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


def _damage(send: Reading, log: Reading, highest: Mapping[Start, int], bits_max: int) -> list[tuple[Clause, str]]:
    """Acknowledged records that the log does not have, records that it has twice, and records out of order. Each stream
    is read once for each window of sequence numbers, and `log` once more for its order."""
    lost = doubled = 0
    for window in windows(highest, bits_max):
        acked, logged = (
            {start: SeqBits(window[0], min(window[1], high + 1)) for start, high in highest.items()} for _ in range(2)
        )
        for chunk in send(window):
            for (producer, incarnation), rows in _groups(chunk, ("producer", "incarnation")):
                is_acked = chunk["status"][rows] == SendStatus.ACKED
                acked[producer, incarnation].mark(chunk["seq"][rows][is_acked])
        for chunk in log(window):
            for (producer, incarnation), rows in _groups(chunk, ("producer", "incarnation")):
                if (producer, incarnation) in logged:  # Of what no producer of this cell sent, the report tells.
                    doubled += logged[producer, incarnation].mark(chunk["seq"][rows])
        lost += sum(bits.count_without(logged[start]) for start, bits in acked.items())
    found = (
        (lost, "acknowledged and lost"),
        (doubled, "doubled"),
        (_swapped(log, highest), "out of order"),
    )
    return [(Clause.DAMAGE, f"{count} records {what}") for count, what in found if count]


def _swapped(log: Reading, highest: Mapping[Start, int]) -> int:
    last_seq: dict[tuple[int, int, int], int] = {}  # The key is producer, incarnation and partition.
    swapped = 0
    for chunk in log(None):
        for (producer, incarnation, partition), rows in _groups(chunk, ("producer", "incarnation", "partition")):
            if (producer, incarnation) not in highest:
                continue
            seqs, place = chunk["seq"][rows], (producer, incarnation, partition)
            steps = np.diff(seqs, prepend=last_seq.get(place, seqs[0]))
            swapped += int((steps < 0).sum())
            last_seq[place] = int(seqs[-1])
    return swapped


def _groups(columns: Columns, names: tuple[str, ...]) -> Iterator[tuple[tuple[int, ...], npt.NDArray[np.int64]]]:
    """The rows with equal values of these columns, in their order."""
    if not len(columns[names[0]]):
        return
    order = np.lexsort([columns[name] for name in names])  # it keeps the order of equal rows
    values = np.stack([columns[name][order] for name in names])
    edges = np.flatnonzero((np.diff(values) != 0).any(axis=0)) + 1
    for rows in np.split(order, edges):
        yield tuple(int(columns[name][rows[0]]) for name in names), rows
