"""Made-up runs for comparisons: cells with a level of their own, repetitions with log-normal noise."""

from __future__ import annotations

import math
import random
from collections.abc import Collection
from dataclasses import replace
from functools import cache

from reports.figures.compare.comparison import Comparison, compare, pair_up
from runlog.records.measurements import Measurement
from tests.reports.sweep_facts import BASELINE, cell_facts, judged, measured


@cache
def _pattern() -> Measurement:
    return measured(judged([cell_facts(BASELINE, p99_us=10_000.0)]))[0]


def made_run(
    seed: int,
    *,
    cells: int,
    repetitions: int,
    noise: float = 0.03,
    change: float = 0.0,
    changed_cells: int | None = None,
    unequal: bool = False,
) -> list[Measurement]:
    """`change` is planted in the p99 and the CPU of the first `changed_cells` cells (all of them if None).

    `unequal` makes some cells several times noisier than others, as saturated ones are.
    """
    rng = random.Random(seed)
    found: list[Measurement] = []
    for cell in range(cells):
        factor = 1 + change if changed_cells is None or cell < changed_cells else 1.0
        own = noise * (4.0 if unequal and cell % 4 == 0 else 1.0)
        for repetition in range(1, repetitions + 1):
            values = {
                "throughput": 2000.0 * math.exp(rng.gauss(0, own / 10)),
                "p99": 5_000.0 * 1.7**cell * factor * math.exp(rng.gauss(0, own)),
                "broker_cpu": 40.0 * factor * math.exp(rng.gauss(0, own)),
            }
            name = f"cell-{cell}"
            found.append(
                replace(_pattern(), cell_id=f"{name}-r{repetition}", name=name, round=repetition, values=values)
            )
    return found


def forked_run(
    seed: int,
    *,
    forks: int,
    cells: int = 8,
    change: float = 0.0,
    between: float = 0.2,
    noise: float = 0.02,
    without_p99: Collection[tuple[int, int]] = (),
) -> list[Measurement]:
    """One round on each cluster; what shifts a cluster shifts all measures of all of its cells, so that luck is worse
    in one measure or the other whichever way it falls. `without_p99` are (cell, cluster)."""
    rng = random.Random(f"clusters/{seed}")
    shifts = [math.exp(rng.gauss(0.0, between)) for _ in range(forks)]
    missing = {(f"cell-{cell}", fork) for cell, fork in without_p99}
    return [
        replace(
            item,
            fork=item.round,
            values={
                name: value * shifts[item.round - 1]
                for name, value in item.values.items()
                if name != "p99" or (item.name, item.round) not in missing
            },
        )
        for item in made_run(seed, cells=cells, repetitions=forks, noise=noise, change=change)
    ]


def forked_trial(seed: int, *, without_p99: Collection[tuple[int, int]] = ()) -> Comparison:
    """A/A on four clusters a side, which scatter by far more than their cells; BASE lacks some figures."""
    base = forked_run(2 * seed, forks=4, between=0.15, without_p99=without_p99)
    return compare(pair_up(base, forked_run(2 * seed + 1, forks=4, between=0.15)))


def rounds_trial(seed: int, *, rounds: int) -> Comparison:
    """A/A of rounds on one cluster each, whose host was now slower and now faster, for all cells of a round alike."""
    base, new = (
        [replace(cell, fork=1) for cell in forked_run(2 * seed + side, forks=rounds, between=0.15)] for side in (0, 1)
    )
    return compare(pair_up(base, new))


def trial(
    seed: int,
    *,
    cells: int,
    repetitions: int,
    noise: float,
    change: float = 0.0,
    changed_cells: int | None = None,
    unequal: bool = False,
) -> Comparison:
    """BASE against a NEW with the planted change; none is an A/A comparison."""
    base = made_run(2 * seed, cells=cells, repetitions=repetitions, noise=noise, unequal=unequal)
    new = made_run(
        2 * seed + 1, cells=cells, repetitions=repetitions, noise=noise, change=change, changed_cells=changed_cells,
        unequal=unequal,
    )  # fmt: skip
    return compare(pair_up(base, new))
