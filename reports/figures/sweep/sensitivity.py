"""The sensitivity of this run: the smallest effect that it would have found, and the repetitions needed to find 5 %."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from reports.figures.statistics.variance import repetitions_for, smallest_effect
from reports.figures.sweep.cell_means import CellMeans
from reports.figures.sweep.observations import MEASURES
from runlog.records.sweep import Sensitivity

TARGET: Final = 0.05
REPETITIONS_MAX: Final = 1_000


def sensitivities(means: Mapping[str, CellMeans], *, factorial: bool) -> tuple[Sensitivity, ...]:
    """The smallest effect that is found with a power of 80 % at the 5 % level.

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
        df = one.scatter_df if one.repeated else math.inf
        variance = one.scatter**2 / (max(1.0, len(one.counts) / 2) if factorial else 1.0)
        effect = smallest_effect(variance, samples, df)
        needed = repetitions_for(math.log1p(TARGET), variance, len(one.counts), REPETITIONS_MAX)
        found.append(
            Sensitivity(
                measure=measure.name,
                scatter=one.scatter,
                repetitions=samples * rounds,
                smallest_effect=math.expm1(effect),
                repetitions_for_target=None if needed is None else needed * rounds,
                repeated=one.repeated,
            )
        )
    return tuple(found)


def _typical(counts: Sequence[int]) -> int:
    return sorted(counts)[len(counts) // 2]
