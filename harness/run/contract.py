"""Did a cell keep the contract of a rate search? From its run log alone, without Spark, between two cells.

Corrected p99 with failed and unknown sends as infinitely late; no acknowledged record lost, doubled or swapped; a
backlog that does not grow; a generator with headroom. Shown by tests/harness/test_harness_search.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from harness.suite import Contract
from reports.criteria import Criteria
from runlog.parquet import read_stream
from runlog.schema import SendStatus

GENERATOR, LATENCY, BACKLOG, DAMAGE, LOAD = "generator", "p99", "backlog", "damage", "load"
_SLOT_US: Final = 100_000
Columns = Mapping[str, npt.NDArray[np.int64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    passed: bool
    broken: tuple[str, ...]  # names of the clauses
    reasons: tuple[str, ...]
    p99_ms: float | None  # None: beyond what was acknowledged
    acked_per_s: float
    backlog_slope_share: float  # growth of the backlog over the rate


def evaluate(
    run_dir: Path, cell_id: str, *, contract: Contract, rate_per_s: float, window_us: tuple[int, int] | None,
    health: Mapping[str, Any], ceiling_per_s: float | None = None,
) -> Evaluation:  # fmt: skip
    """`ceiling_per_s` is what the generator reaches by itself, where that was measured."""
    if window_us is None:
        return _not_measured("the cell has no measured window")
    send, log = (_columns(run_dir, stream, cell_id) for stream in ("send", "log"))
    return judge(
        send, log, contract=contract, rate_per_s=rate_per_s, window_us=window_us, health=health,
        ceiling_per_s=ceiling_per_s,
    )  # fmt: skip


def _columns(run_dir: Path, stream: str, cell_id: str) -> Columns:
    table = read_stream(run_dir, stream, cell_id)
    return {name: table[name].to_numpy().astype(np.int64) for name in table.column_names}


def _not_measured(why: str) -> Evaluation:
    return Evaluation(
        passed=False, broken=(LOAD,), reasons=(why,), p99_ms=None, acked_per_s=0.0, backlog_slope_share=0.0
    )  # fmt: skip


def judge(
    send: Columns, log: Columns, *, contract: Contract, rate_per_s: float, window_us: tuple[int, int],
    health: Mapping[str, Any], ceiling_per_s: float | None = None,
) -> Evaluation:  # fmt: skip
    start_us, end_us = window_us
    inside = (send["intended_us"] >= start_us) & (send["intended_us"] < end_us)
    if not inside.any():
        return _not_measured("no record was due in the measured window")
    acked = send["status"] == SendStatus.ACKED
    latency_us = np.where(acked, send["acked_us"] - send["intended_us"], np.iinfo(np.int64).max)[inside]
    p99_us = int(np.quantile(latency_us, 0.99, method="higher"))
    slope = _backlog_slope(send, acked, window_us)
    seconds = (end_us - start_us) / 1e6
    acked_in_window = acked & (send["acked_us"] >= start_us) & (send["acked_us"] < end_us)
    clauses = [
        *_generator(send, inside, rate_per_s, seconds, health, ceiling_per_s),
        *_latency(p99_us, contract),
        *_backlog(slope / rate_per_s, contract),
        *_damage(send, log, acked),
    ]
    return Evaluation(
        passed=not clauses,
        broken=tuple(name for name, _ in clauses),
        reasons=tuple(reason for _, reason in clauses),
        p99_ms=p99_us / 1000 if p99_us < np.iinfo(np.int64).max else None,
        acked_per_s=float(acked_in_window.sum()) / seconds,
        backlog_slope_share=slope / rate_per_s,
    )


def _generator(
    send: Columns,
    inside: npt.NDArray[np.bool_],
    rate_per_s: float,
    seconds: float,
    health: Mapping[str, Any],
    ceiling_per_s: float | None,
) -> list[tuple[str, str]]:
    """The client as limit: the cluster is then not to be blamed, and the rate is the client's."""
    criteria = Criteria()
    shares = health.get("cpu_share_by_process") or [health.get("cpu_share") or 0.0]
    busiest = max(float(share) for share in shares)
    if busiest >= criteria.generator_cpu_share_max:
        return [(GENERATOR, f"a load process used {busiest:.0%} of a core: the client is the limit")]
    if ceiling_per_s and rate_per_s >= criteria.generator_ceiling_share_max * ceiling_per_s:
        near = f"{rate_per_s / ceiling_per_s:.0%} of the {ceiling_per_s:,.0f} records/s"
        return [(GENERATOR, f"the rate is {near} that the client reaches against a broker that stores nothing")]
    due = int(inside.sum())
    if due < 0.95 * rate_per_s * seconds:
        return [(GENERATOR, f"only {due:,} of {rate_per_s * seconds:,.0f} records were handed to the client")]
    return []


def _latency(p99_us: int, contract: Contract) -> list[tuple[str, str]]:
    if p99_us <= contract.p99_ms * 1000:
        return []
    shown = "of records never acknowledged" if p99_us == np.iinfo(np.int64).max else f"{p99_us / 1000:,.1f} ms"
    return [(LATENCY, f"p99 {shown}, allowed {contract.p99_ms:g} ms")]


def _backlog_slope(send: Columns, acked: npt.NDArray[np.bool_], window_us: tuple[int, int]) -> float:
    """Records per second by which due records outgrow acknowledged ones, by least squares over the window."""
    start_us, end_us = window_us
    slots = max(2, (end_us - start_us) // _SLOT_US)
    edges = np.linspace(start_us, end_us, slots + 1)
    due = np.searchsorted(np.sort(send["intended_us"]), edges)
    done = np.searchsorted(np.sort(send["acked_us"][acked]), edges)
    return float(np.polyfit((edges - start_us) / 1e6, (due - done).astype(np.float64), 1)[0])


def _backlog(share: float, contract: Contract) -> list[tuple[str, str]]:
    if share <= contract.backlog_growth_share:
        return []
    return [(BACKLOG, f"the backlog grew by {share:.1%} of the rate, allowed {contract.backlog_growth_share:.1%}")]


def _damage(send: Columns, log: Columns, acked: npt.NDArray[np.bool_]) -> list[tuple[str, str]]:
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
    return [(DAMAGE, f"{count} records {what}") for count, what in damage if count]


def _identities(columns: Columns) -> npt.NDArray[np.int64]:
    """(producer, incarnation, seq) in one number; seq below 2^40."""
    packed = (columns["producer"] << 52) | (columns["incarnation"] << 40) | columns["seq"]
    return np.asarray(packed, dtype=np.int64)
