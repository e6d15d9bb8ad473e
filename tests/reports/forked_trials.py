"""Sweeps on several clusters, composed of known parts: a level of each configuration, a shift of each cluster, what a
cluster does to one configuration, and noise from cell to cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from reports.figures.statistics.variance import FloatArray
from reports.figures.sweep.cell_means import CellMeans, cell_means
from reports.figures.sweep.observations import OK, SAFE, Configuration, Observation
from runlog.records.sweep import Behaviour

NOTHING = Behaviour(**{one.name: None for one in fields(Behaviour)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Standard deviations of logarithms."""

    levels: tuple[float, ...]  # ln(value) of each configuration as the mean over all clusters
    between: float  # of clusters, common to all configurations
    own: float = 0.0  # of clusters, for each configuration on its own
    noise: float = 0.05  # of cells


def configuration(number: int) -> Configuration:
    return (("linger.ms", str(number)),)


def made_sweep(
    truth: Truth, *, forks: int, rounds: int = 1, seed: int, measure: str = "p99"
) -> list[Observation]:  # fmt: skip
    generator = np.random.default_rng(seed)
    found: list[Observation] = []
    for fork in range(1, forks + 1):
        levels = _one_cluster(truth, generator)
        for number in range(1, rounds + 1):
            values = np.exp(levels + generator.normal(0, truth.noise, len(levels)))
            found += [
                observation(place, float(value), (fork - 1) * rounds + number, fork, measure)
                for place, value in enumerate(values)
            ]
    return found


def one_more_cluster(truth: Truth, place: int, *, rounds: int, seed: int) -> list[float]:
    """What a configuration shows in so many cells on a cluster that the sweep did not see: values, not logarithms."""
    generator = np.random.default_rng(seed)
    level = _one_cluster(truth, generator)[place]
    return [float(value) for value in np.exp(level + generator.normal(0, truth.noise, rounds))]


def _one_cluster(truth: Truth, generator: np.random.Generator) -> FloatArray:
    levels = np.array(truth.levels) + generator.normal(0, truth.between)
    return np.asarray(levels + generator.normal(0, truth.own, len(truth.levels)))


def observation(place: int, value: float, round_number: int, fork: int = 1, measure: str = "p99") -> Observation:
    """Of one cell of the configuration at this place; the first is the baseline."""
    return Observation(
        cell_id=f"sweep-{place}-r{round_number}", title=f"linger.ms={place}", configuration=configuration(place),
        round=round_number, baseline=place == 0, state=OK, reason="", values={measure: value}, log_errors={},
        safety=SAFE, contract="", asked_per_s=None, behaviour=NOTHING, fork=fork,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """In how many trials the interval held the truth."""

    level: int
    difference: int
    one_more_cluster: int


def coverage(truth: Truth, *, forks: int, rounds: int, trials: int, first_seed: int) -> Coverage:
    """Of the second configuration: its level over all clusters, its difference to the first, and its mean in as many
    rounds on a cluster that the sweep did not see."""
    level_hits = difference_hits = new_hits = 0
    for seed in range(first_seed, first_seed + trials):
        means = cell_means(made_sweep(truth, forks=forks, rounds=rounds, seed=seed), "p99")
        assert means is not None
        level, new = means.level(configuration(1)), means.in_new_fork(configuration(1))
        difference = means.between(configuration(0), configuration(1))
        assert level is not None
        assert new is not None
        assert difference is not None
        seen = float(np.mean(np.log(one_more_cluster(truth, 1, rounds=rounds, seed=1_000_000 + seed))))
        level_hits += level.low <= truth.levels[1] <= level.high
        difference_hits += difference.low <= truth.levels[1] - truth.levels[0] <= difference.high
        new_hits += new.low <= seen <= new.high
    return Coverage(level=level_hits, difference=difference_hits, one_more_cluster=new_hits)


def chosen(observations: Sequence[Observation]) -> tuple[CellMeans, Configuration]:
    """The means, and the configuration with the least of them."""
    means = cell_means(observations, "p99")
    assert means is not None
    return means, means.configurations[int(np.argmin(means.means))]
