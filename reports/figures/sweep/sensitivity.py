"""The sensitivity of this run: the smallest effect that it would have found, and the repetitions needed to find 5 %."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from reports.figures.statistics.variance import fewest, smallest_effect
from reports.figures.sweep.cell_means import PRIOR_DF_MAX, CellMeans
from reports.figures.sweep.effects import FACTORIAL, Effects
from reports.figures.sweep.observations import MEASURES
from runlog.records.sweep import Sensitivity

TARGET: Final = 0.05
REPETITIONS_MAX: Final = 1_000


def sensitivities(means: Mapping[str, CellMeans], effects: Mapping[str, Effects]) -> tuple[Sensitivity, ...]:
    """The smallest effect that is found with a power of 80 % at the 5 % level of all effects on the measure together.

    One factor at a time sets one configuration against another. In a factorial design half of all configurations stand
    on either side of an effect, so that its variance is that much smaller.
    """
    found: list[Sensitivity] = []
    for measure in MEASURES:
        one = means.get(measure.name)
        if one is None or not 0 < one.scatter < math.inf:
            continue
        # Where a cluster had several rounds, its mean is one sample, and a further sample costs that many rounds.
        rounds = 1 if one.forks is None else one.forks.rounds
        samples = _typical(one.counts)
        needed = fewest(partial(_is_found, one, effects[measure.name]), REPETITIONS_MAX)
        found.append(
            Sensitivity(
                measure=measure.name,
                scatter=one.scatter,
                repetitions=samples * rounds,
                smallest_effect=math.expm1(_smallest(one, effects[measure.name], samples)),
                repetitions_for_target=None if needed is None else needed * rounds,
                repeated=one.repeated,
            )
        )
    return tuple(found)


def _is_found(means: CellMeans, effects: Effects, repetitions: int) -> bool:
    return _smallest(means, effects, repetitions) <= math.log1p(TARGET)


def _smallest(means: CellMeans, effects: Effects, repetitions: int) -> float:
    """With so many repetitions of each configuration, in logarithms."""
    variance, groups = means.scatter**2, len(means.counts)
    if effects.design == FACTORIAL:
        return smallest_effect(
            variance / max(1.0, groups / 2), repetitions, _df(means, groups * (repetitions - 1)),
            comparisons=max(1, len(effects.effects)),
        )  # fmt: skip
    often = repetitions * max(means.counts) / _typical(means.counts)  # the baseline may run more often
    parts = [(1 / runs, runs - 1 + PRIOR_DF_MAX) for runs in (repetitions, often)]
    df = sum(part for part, _ in parts) ** 2 / sum(part**2 / own for part, own in parts)
    return smallest_effect(variance, repetitions, _df(means, df), others=often, comparisons=max(1, groups - 1))


def _df(means: CellMeans, df: float) -> float:
    """Without repetitions the scatter is that inside one cell, which is known."""
    return max(1.0, df) if means.repeated else math.inf


def _typical(counts: Sequence[int]) -> int:
    return sorted(counts)[len(counts) // 2]
