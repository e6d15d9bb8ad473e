"""Whether a cell kept the contract of a rate search. Computed from its run log alone, without Spark, between two cells.

- Corrected p99, with failed and unknown sends as infinitely late.
- No acknowledged record lost, duplicated or reordered.
- A backlog that does not grow.
- A generator with headroom.

The schedule says what was due. So records that were never sent count too: as infinitely late, as backlog, and as the
generator's fault only if the client had room for them. Shown by tests/harness/test_harness_search.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.suite import Contract
from runlog.quality.criteria import Criteria
from runlog.records.load import Health
from runlog.records.search import Clause
from runlog.streams.parquet import read_columns
from runlog.streams.schema import SendStatus
from workloads.model import Workload
from workloads.schedule import Schedule, Share, build

_SLOT_US: Final = 100_000
_SHORTFALL_MAX: Final = 0.05  # of what was due; if the generator did not hand over more than this, it was another rate
_ENDLESS_US: Final = np.iinfo(np.int64).max
_IDENTITY: Final = ("producer", "incarnation", "seq")
_ASKED: Final[Mapping[str, tuple[str, ...]]] = {
    "send": (*_IDENTITY, "status", "intended_us", "acked_us"),
    "log": (*_IDENTITY, "partition", "offset"),
}
Columns = Mapping[str, npt.NDArray[np.int64]]


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
    send, log = (_columns(run_dir, stream, cell_id, names) for stream, names in _ASKED.items())
    return judge(
        send, log, contract=contract, workload=workload, seed=seed, window_us=window_us, health=health,
        ceiling_per_s=ceiling_per_s,
    )  # fmt: skip


def _columns(run_dir: Path, stream: str, cell_id: str, names: Sequence[str]) -> Columns:
    table = read_columns(run_dir, stream, cell_id, names)
    return {name: table[name].to_numpy().astype(np.int64) for name in names}


def _not_measured(why: str) -> Evaluation:
    return Evaluation(
        passed=False, broken=(Clause.LOAD,), reasons=(why,), p99_ms=None, acked_per_s=0.0, backlog_slope_share=0.0
    )  # fmt: skip


def judge(
    send: Columns, log: Columns, *, contract: Contract, workload: Workload, seed: int, window_us: tuple[int, int],
    health: Health, ceiling_per_s: float | None = None,
) -> Evaluation:  # fmt: skip
    start_us, end_us = window_us
    rate_per_s = workload.rate_per_s
    inside = (send["intended_us"] >= start_us) & (send["intended_us"] < end_us)
    due = _due(send, inside, workload, seed, window_us)
    if not due.in_window:
        return _not_measured("no record was due in the measured window")
    acked = send["status"] == SendStatus.ACKED
    latency_us = np.where(acked, send["acked_us"] - send["intended_us"], _ENDLESS_US)[inside]
    p99_us = _p99_us(latency_us, due.missing)
    slope = _backlog_slope(send, acked, due, window_us)
    seconds = (end_us - start_us) / 1e6
    acked_in_window = acked & (send["acked_us"] >= start_us) & (send["acked_us"] < end_us)
    # Of each producer's records that were never handed over, those that were due while its client had no room.
    refused = min(due.missing, health.unsent_for_space or 0)
    clauses = [
        *_generator(due, refused, rate_per_s, health, ceiling_per_s),
        *_latency(p99_us, contract),
        *_backlog(slope / rate_per_s, due, refused, contract),
        *_damage(send, log, acked),
    ]
    return Evaluation(
        passed=not clauses,
        broken=tuple(name for name, _ in clauses),
        reasons=tuple(reason for _, reason in clauses),
        p99_ms=p99_us / 1000 if p99_us < _ENDLESS_US else None,
        acked_per_s=float(acked_in_window.sum()) / seconds,
        backlog_slope_share=slope / rate_per_s,
    )


def _due(
    send: Columns, inside: npt.NDArray[np.bool_], workload: Workload, seed: int, window_us: tuple[int, int]
) -> _Due:
    """The run log has a row for each record that was handed over, so the rest of the schedule is missing. If the window
    was cut short, only what was due in it counts."""
    schedule = Share(build(workload, seed), index=0, of=1, burst=workload.records_per_burst)
    measure_ns = workload.warmup_ms * 1_000_000
    begun = schedule.count_until(measure_ns - 1)
    in_window = schedule.count_until(measure_ns + (window_us[1] - window_us[0]) * 1_000 - 1) - begun
    handed = int(inside.sum())
    missing = max(0, min(schedule.total - len(inside), in_window - handed))
    return _Due(schedule=schedule, measure_ns=measure_ns, in_window=max(in_window, handed), missing=missing)


def _p99_us(latency_us: npt.NDArray[np.int64], missing: int) -> int:
    """p99 of the records that were due. This many of them are infinitely late."""
    place = math.ceil(0.99 * (len(latency_us) + missing - 1) - 1e-9)
    return int(np.partition(latency_us, place)[place]) if place < len(latency_us) else _ENDLESS_US


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


def _backlog_slope(send: Columns, acked: npt.NDArray[np.bool_], due: _Due, window_us: tuple[int, int]) -> float:
    """How many records per second due records outgrow acknowledged ones, by least squares over the window."""
    start_us, end_us = window_us
    slots = max(2, (end_us - start_us) // _SLOT_US)
    edges = np.linspace(start_us, end_us, slots + 1)
    begun = np.searchsorted(np.sort(send["intended_us"]), edges)
    if due.missing:
        begun = np.array([due.until(edge - start_us) for edge in edges.tolist()])
    done = np.searchsorted(np.sort(send["acked_us"][acked]), edges)
    return float(np.polyfit((edges - start_us) / 1e6, (begun - done).astype(np.float64), 1)[0])


def _backlog(share: float, due: _Due, refused: int, contract: Contract) -> list[tuple[Clause, str]]:
    """What the client had no room for until the drain had ended is a backlog that the window left, however it grew."""
    reasons = []
    if share > contract.backlog_growth_share:
        reasons.append(f"the backlog grew by {share:.1%} of the rate, allowed {contract.backlog_growth_share:.1%}")
    if refused > contract.backlog_growth_share * due.in_window:
        records = f"{refused:,} of {due.in_window:,} records"
        reasons.append(f"for {records} the client never had room: the cluster took no more")
    return [(Clause.BACKLOG, "; ".join(reasons))] if reasons else []


def _damage(send: Columns, log: Columns, acked: npt.NDArray[np.bool_]) -> list[tuple[Clause, str]]:
    sent = _identities(send)[acked]
    found = _identities(log)
    lost = int((~np.isin(sent, found)).sum())
    doubled = len(found) - len(np.unique(found))
    order = np.lexsort((log["offset"], log["partition"], log["incarnation"], log["producer"]))
    same = np.ones(max(0, len(order) - 1), dtype=np.bool_)
    for name in ("producer", "incarnation", "partition"):
        same &= np.diff(log[name][order]) == 0
    swapped = int((same & (np.diff(log["seq"][order]) < 0)).sum())
    damage = [(lost, "acknowledged and lost"), (doubled, "doubled"), (swapped, "out of order")]
    return [(Clause.DAMAGE, f"{count} records {what}") for count, what in damage if count]


def _identities(columns: Columns) -> npt.NDArray[np.int64]:
    """(producer, incarnation, seq) in one number; seq below 2^40."""
    packed = (columns["producer"] << 52) | (columns["incarnation"] << 40) | columns["seq"]
    return np.asarray(packed, dtype=np.int64)
