"""Facts of sweep cells with planted effects and noise: what the analysis must find again."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reports.figures.measurements import measure
from reports.figures.sweep.observations import observe
from reports.figures.sweep.sweep_analysis import SweepAnalysis, analyse_sweep
from reports.judge.judged import Judged
from reports.judge.verdict import judge
from reports.read.model import CellFacts, Counts, IdentitySet, Latency, SetComparison
from runlog.records.codec import from_document
from runlog.records.measurements import Measurement
from runlog.records.sweep import PredictedFigure
from tests.reports.cells import make_cell
from tests.reports.made_slots import made_slots

Factors = Mapping[str, str]
BASELINE = {"batch.size": "16384", "linger.ms": "5", "compression.type": "none", "acks": "all"}
WINDOW_US, SLOT_US = 10_000_000, 100_000
_SAFE = {"acks": "all", "enable.idempotence": "true", "max.in.flight.requests.per.connection": "5"}


def cell_facts(
    factors: Factors,
    *,
    p99_us: float,
    throughput: float = 2000.0,
    asked: float = 2000.0,
    cpu_us: float = 50.0,
    compiler_us: float | None = None,
    collector_us: float = 1.0,
    engine: str = "reference",
    wire_bytes: float = 500.0,
    repetition: int = 1,
    fork: int = 1,
    baseline: bool = False,
    kind: str = "sweep",
    cell_id: str = "",
    cpu_share: float = 0.3,
    damage: Mapping[str, int] | None = None,
    health: Mapping[str, Any] | None = None,
    properties: Mapping[str, str] | None = None,
    failed: int = 0,
) -> CellFacts:
    """One cell that ran to its end, with these figures. `compiler_us` comes to `cpu_us`, in one burst in the middle of
    the window, and makes the broker a JVM whose collector takes `collector_us` of `cpu_us`."""
    name = cell_id or f"{'-'.join(factors.values())}-r{repetition}"
    records = int(throughput * WINDOW_US / 1e6)
    document = {
        "kind": kind,
        "engine": engine,
        "title": " ".join(f"{key}={value}" for key, value in factors.items()),
        "repetition": repetition,
        "fork": fork,
        "baseline": baseline,
        "factors": dict(factors),
        "knobs": dict(factors),
        "properties": {**_SAFE, **factors, **(properties or {})},
        "topic": {"replication_factor": 3, "config": {"min.insync.replicas": "2"}},
        "workload": {"rate_per_s": asked, "record_size_bytes": 1024, "compressibility": 0.5},
        "expect": {kind_: "any" for kind_ in damage or {}},
        "outcome": {
            "status": "done",
            "measure_start_us": 0,
            "measure_end_us": WINDOW_US,
            "final_read": {"complete": True},
            "health": {"cpu_share": cpu_share, **(health or {})},
        },
    }
    stats = [
        _broker(t, cpu_us * records / WINDOW_US, compiler_us, collector_us, records)
        for t in range(0, WINDOW_US + 1, 500_000)
    ]
    slots = made_slots(WINDOW_US, SLOT_US, throughput * SLOT_US / 1e6)
    faults = ({"id": "f", "phase": "applied", "kind": "kill"}, {"id": "f", "phase": "proved"}) if damage else ()
    counts = Counts(
        sent=records, acked=records - failed, failed=failed, sent_total=records, acked_total=records - failed,
        failed_total=failed, log_total=records - failed, acks_in_window=records - failed,
    )  # fmt: skip
    own = {kind_: IdentitySet(count=number) for kind_, number in (damage or {}).items()}
    return CellFacts(
        cell=make_cell(cell_id=name, document=document, stats=tuple(stats), faults=faults),
        counts=counts,
        throughput_records_per_s=throughput,
        throughput_interval=(throughput * 0.999, throughput * 1.001),
        steady_ratio=0.98,
        latency={
            "corrected": Latency(
                n=records,
                quantiles={"p99": p99_us},
                max_us=int(p99_us * 2),
                p99_interval_us=(p99_us * 0.99, p99_us * 1.01),
            ),
            "schedule_lag": Latency(n=records, quantiles={"p99": 300.0}),
            "uncorrected": Latency(),
            "end_to_end": Latency(),
        },
        predictions={k: SetComparison(both=own.get(k, IdentitySet())) for k in ("lost", "duplicated", "reordered")},
        observed=own,
        records_per_batch=10.0,
        batches=records // 10,
        log_bytes=int(wire_bytes * records),
        slots=slots,
        slot_us=SLOT_US,
    )  # fmt: skip


def _broker(t_us: int, cores: float, compiler_us: float | None, collector_us: float, records: int) -> dict[str, Any]:
    """A sample of a broker that keeps so many cores busy."""
    if compiler_us is None:
        return {"t_us": t_us, "source": "broker-1", "name": "resources", "values": {"cpu_s": cores * t_us / 1e6}}
    compiler_s = compiler_us * records / 1e6 if t_us >= WINDOW_US // 2 else 0.0
    return {
        "t_us": t_us,
        "source": "broker-1",
        "name": "resources",
        "values": {
            "cpu_s": cores * t_us / 1e6 + compiler_s,
            "compiler_cpu_s": compiler_s,
            "collector_cpu_s": collector_us * records * t_us / WINDOW_US / 1e6,
        },
    }


def judged(facts: Sequence[CellFacts]) -> list[Judged]:
    return [Judged(facts=item, verdict=judge(item)) for item in facts]


def analysed(items: Sequence[Judged]) -> SweepAnalysis:
    found = analyse_sweep(items, observe(items))
    assert found is not None
    return found


def measured(items: Sequence[Judged]) -> list[Measurement]:
    return measure(items, observe(items))


def planted_sweep(
    configurations: Sequence[Factors],
    p99_of: Callable[[Factors], float],
    *,
    repetitions: int,
    noise: float,
    seed: int,
    round_noise: float = 0.0,
    baseline: Factors | None = None,
    forks: int = 1,
) -> list[Judged]:
    """Each configuration once a round; p99 = truth x round x noise, both log-normal with these deviations. Rounds are
    dealt over so many clusters."""
    rng = random.Random(seed)
    facts = []
    for repetition in range(1, repetitions + 1):
        drift = rng.gauss(0, round_noise)
        facts += [
            cell_facts(
                factors,
                p99_us=p99_of(factors) * math.exp(drift + rng.gauss(0, noise)),
                repetition=repetition,
                fork=(repetition - 1) * forks // repetitions + 1,
                baseline=baseline is not None and dict(factors) == dict(baseline),
            )
            for factors in configurations
        ]
    return judged(facts)


def one_at_a_time(changes: Mapping[str, Sequence[str]], baseline: Factors = BASELINE) -> list[dict[str, str]]:
    cells = [dict(baseline)]
    cells += [{**baseline, name: value} for name, values in changes.items() for value in values]
    return cells


def predicted_figures(document: Mapping[str, object]) -> dict[str, PredictedFigure]:
    """By measure; `document` is `recommendation.predicted` of sweep.json."""
    return {name: from_document(PredictedFigure, figure) for name, figure in document.items()}
