"""Sweeps in which one configuration scatters three times as much as the others, and how often their intervals hold.

`python -m tests.reports.interval_trials [TRIALS]` prints the table of docs/internals/statistics.md.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reports.figures.sweep.cell_means import cell_means
from reports.figures.sweep.effects import Effect, estimate_effects, judgement
from tests.reports.forked_trials import observation

ALIKE, ONE, BASE = "alike", "one scatters three times as much", "the baseline scatters three times as much"
KINDS = (ALIKE, ONE, BASE)
_SCATTER = 0.1
_DRIFT = 0.1  # of the host from round to round


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The effects of one trial; the last configuration is the one that may scatter more. No effect is there."""

    effects: tuple[Effect, ...]

    @property
    def held(self) -> list[bool]:
        return [one.estimate.low <= 0 <= one.estimate.high for one in self.effects]

    @property
    def has_false_dot(self) -> bool:
        return any(judgement(one) in ("better", "worse") for one in self.effects)


def column(kind: str, *, others: int, repetitions: int, baseline_runs: int, seed: int) -> Column:
    generator = np.random.default_rng(seed)
    scatters = [_SCATTER * (3 if kind == BASE else 1)] + [_SCATTER] * others
    scatters[-1] *= 3 if kind == ONE else 1
    made = []
    for number in range(1, repetitions + 1):
        drift = generator.normal(0, _DRIFT)
        for place, scatter in enumerate(scatters):
            values = np.exp(drift + generator.normal(0, scatter, 1 if place else baseline_runs))
            made += [observation(place, float(value), number) for value in values]
    means = cell_means(made, "p99")
    assert means is not None
    return Column(effects=estimate_effects(means, made[0].configuration).effects)


def columns(kind: str, *, others: int, repetitions: int, baseline_runs: int, trials: int) -> list[Column]:
    return [
        column(kind, others=others, repetitions=repetitions, baseline_runs=baseline_runs, seed=seed)
        for seed in range(trials)
    ]


def coverage_of_last(found: Sequence[Column]) -> float:
    return sum(one.held[-1] for one in found) / len(found)


def coverage_of_all(found: Sequence[Column]) -> float:
    """The share of columns in which every interval holds its effect."""
    return sum(all(one.held) for one in found) / len(found)


def main(trials: int = 1_000) -> None:
    print("others  repetitions  baseline  scatter  last held  all held  false dot  half width")
    for others, repetitions, baseline_runs in ((6, 2, 1), (6, 2, 2), (6, 3, 2), (6, 5, 2), (2, 2, 1), (1, 2, 1)):
        for kind in KINDS:
            found = columns(kind, others=others, repetitions=repetitions, baseline_runs=baseline_runs, trials=trials)
            half = np.median([one.estimate.high - one.estimate.value for each in found for one in each.effects])
            print(
                f"{others:6}  {repetitions:11}  {repetitions * baseline_runs:8}  {kind}  "
                f"{coverage_of_last(found):.1%}  {coverage_of_all(found):.1%}  "
                f"{sum(one.has_false_dot for one in found) / trials:.1%}  {half / _SCATTER:.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
