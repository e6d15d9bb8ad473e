"""The three trials: percentiles under stalls, effects of a planted delay, and the limit of a planted capacity.

Each trial runs the product as a user does (`harness run … --cluster external`) against the known server. It reads the
run directory and compares it with the plan. The truth is computed without any code of the engine.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.claims import Claim
from benchmarks.known_server.plan import Plan, seeded_stalls
from benchmarks.known_server.relay import KnownServer
from benchmarks.known_server.runs import (
    RATE_PER_S,
    cells_of,
    latencies_of,
    run_suite,
    search_suite,
    sweep_suite,
    verdicts_of,
)
from reports.analyse.queries import LATENCY_BINS_PER_E_FOLD
from reports.figures.compare.comparison import WORSE, compare
from reports.figures.sweep.cell_means import cell_means
from reports.figures.sweep.effects import estimate_effects
from reports.figures.sweep.observations import SAFE, Observation
from runlog.records.documents import read_search_record
from runlog.records.measurements import Measurement
from runlog.records.results import read_measurements
from runlog.records.sweep import Behaviour

GAP_S: Final = (0.03, 0.12)
STALL_S: Final = (0.02, 0.10)
DELAYS_S: Final = {1: 0.200, -1: 0.220}  # acks=1 and acks=all: 10 % apart
SWEEP_ROUNDS: Final = 4
# Each side has so many. With four, one figure of several cannot pass the false-discovery bound.
COMPARED_ROUNDS: Final = 6
LONG_RUN_S: Final = 3_600.0
_NO_BEHAVIOUR: Final = Behaviour(**{each.name: None for each in fields(Behaviour)})
BIN: Final = 1.0 / LATENCY_BINS_PER_E_FOLD  # relative width of a histogram's bin


def percentiles(server: KnownServer, directory: Path, trials: int) -> Iterator[Claim]:
    """Stalls at random times: is each cell's figure that of its own records, and its interval that of the server?"""
    server.plan = Plan()
    control = run_suite(server, directory / "control", sweep_suite("control", repetitions=3))
    way_s = float(np.quantile(np.concatenate([latencies_of(control, cell)[1] for cell in cells_of(control)]), 0.999))
    started_s = time.monotonic()
    server.plan = Plan(
        stalls=seeded_stalls(1, from_s=started_s, for_s=trials * 30.0 + 120.0, gap_s=GAP_S, length_s=STALL_S)
    )
    run = run_suite(server, directory / "stalls", sweep_suite("stalls", repetitions=trials))
    reported = {cell["cell_id"]: cell["latency_us"]["corrected"] for cell in verdicts_of(run)["cells"]}
    exact: dict[str, int] = {"p50": 0, "p90": 0, "p99": 0, "max": 0}
    inside, cells = 0, cells_of(run)
    long_run = seeded_stalls(2, from_s=0.0, for_s=LONG_RUN_S, gap_s=GAP_S, length_s=STALL_S)
    every_ms = np.arange(0.0, LONG_RUN_S, 1e-3)
    forever = [
        float(np.quantile(Plan(stalls=long_run).latencies(every_ms, acks=1, way_s=way), 0.99)) for way in (0.0, way_s)
    ]
    for cell in cells:
        intended_s, _ = latencies_of(run, cell)
        bounds = [server.plan.latencies(intended_s, acks=1, way_s=way) for way in (0.0, way_s)]
        for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)):
            low, high = (float(np.quantile(each, share)) for each in bounds)
            exact[name] += low * (1 - BIN) <= reported[cell][name] / 1e6 <= high * (1 + BIN)
        interval = reported[cell]["p99_interval"]
        inside += interval is not None and interval[0] / 1e6 <= forever[1] and interval[1] / 1e6 >= forever[0]
    for name, count in exact.items():
        yield Claim(
            text=f"corrected {name} is that of the planned stalls", count=count, total=len(cells), at_least=0.95
        )
    yield Claim(
        text="the interval of p99 holds the p99 that the server has in the long run",
        count=inside,
        total=len(cells),
        at_least=0.95,
    )


def effects(server: KnownServer, directory: Path, rounds: int) -> Iterator[Claim]:
    """acks=all is answered 10 % later than acks=1: found as an effect, found by comparison, and not where it is not."""
    server.plan = Plan(delay_s_by_acks=DELAYS_S)
    run = run_suite(server, directory / "delays", sweep_suite("delays", repetitions=rounds, acks=("all",)))
    way_s = [
        float(np.quantile(latencies, 0.99)) - DELAYS_S[1 if "baseline" in cell else -1]
        for cell in cells_of(run)
        for _, latencies in [latencies_of(run, cell)]
    ]
    truth = math.log((DELAYS_S[-1] + np.median(way_s)) / (DELAYS_S[1] + np.median(way_s)))
    observations = _observations(run)
    sweeps, pairs = rounds // SWEEP_ROUNDS, rounds // COMPARED_ROUNDS
    inside = sum(_effect_holds(_group(observations, number), truth) for number in range(sweeps))
    yield Claim(text="the effect of 10 % lies within its interval", count=inside, total=sweeps, at_least=0.95)
    measured = read_measurements(run)
    base = [item for item in measured if "baseline" in item.name]
    slower = [item for item in measured if "baseline" not in item.name]
    found = [_compared(_chunk(base, number), _chunk(slower, number)) for number in range(pairs)]
    yield Claim(text="10 % slower is called worse", count=found.count(WORSE), total=pairs, at_least=0.95)
    alike = [_compared(_chunk(each, n), _chunk(each, n + 1)) for each in (base, slower) for n in range(0, pairs - 1, 2)]
    yield Claim(text="A/A is called worse", count=alike.count(WORSE), total=len(alike), at_most=0.05)


def limits(server: KnownServer, directory: Path, trials: int) -> Iterator[Claim]:
    """A capacity in records/s: the search gives an interval that holds it, and reports a rate that the server keeps."""
    inside = kept = 0
    for number in range(trials):
        limit = 1_500 * 4 ** (number / max(trials - 1, 1))
        server.plan = Plan(records_per_s=limit)
        run = run_suite(server, directory / f"limit-{number}", search_suite("limit"))
        found = read_search_record(run)
        if found is None:
            raise RuntimeError(f"{run}: the search wrote no result")
        print(f"limit {limit:,.0f}/s: found {found.low_per_s:,.0f} to {found.high_per_s:,.0f}", file=sys.stderr)
        inside += found.low_per_s <= limit <= found.high_per_s
        kept += found.rate_per_s is not None and found.rate_per_s <= limit
    yield Claim(
        text="the planned capacity lies within the search's interval", count=inside, total=trials, at_least=0.95
    )
    yield Claim(text="the server carries the rate that is reported", count=kept, total=trials, at_least=0.95)


def _observations(run: Path) -> list[Observation]:
    """What the analysis makes its estimates from, put together again from the files that it wrote."""
    errors = {
        cell["cell_id"]: math.log(high / low) / (2 * 1.96)
        for cell in verdicts_of(run)["cells"]
        for low, high in [cell["latency_us"]["corrected"]["p99_interval"]]
    }
    return [
        Observation(
            cell_id=item.cell_id, title=item.title, configuration=(("acks", item.properties["acks"]),),
            round=item.round, baseline="baseline" in item.name, state=item.state, reason=item.reason,
            values=dict(item.values),
            log_errors={"p99": errors[item.cell_id]}, safety=SAFE, contract=SAFE, asked_per_s=RATE_PER_S,
            behaviour=_NO_BEHAVIOUR,
        )
        for item in read_measurements(run)
    ]  # fmt: skip


def _group(observations: Sequence[Observation], number: int) -> list[Observation]:
    """The cells of one sweep of SWEEP_ROUNDS rounds, numbered from 1 as such a sweep has them."""
    rounds = range(SWEEP_ROUNDS * number + 1, SWEEP_ROUNDS * (number + 1) + 1)
    return [replace(item, round=item.round - SWEEP_ROUNDS * number) for item in observations if item.round in rounds]


def _effect_holds(observations: list[Observation], truth: float) -> bool:
    means = cell_means(observations, "p99")
    if means is None:
        return False
    base = next(item.configuration for item in observations if item.baseline)
    [effect] = estimate_effects(means, base).effects
    return effect.estimate.low <= truth <= effect.estimate.high


def _chunk(measured: Sequence[Measurement], number: int) -> list[Measurement]:
    ordered = sorted(measured, key=lambda item: item.round)
    return [replace(item, name="cell", title="cell") for item in ordered[COMPARED_ROUNDS * number :][:COMPARED_ROUNDS]]


def _compared(base: list[Measurement], new: list[Measurement]) -> str:
    comparison = compare({"cell": (base, new)})
    return next(row.result for row in comparison.rows if row.cell == "cell" and row.measure == "p99")
