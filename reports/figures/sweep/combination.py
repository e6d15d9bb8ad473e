"""The combination of the best level of each setting, which no cell of a one-at-a-time sweep had. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reports.figures.statistics.variance import Estimate
from reports.figures.sweep.cell_means import CellMeans
from reports.figures.sweep.effects import ONE_AT_A_TIME, Effects
from reports.figures.sweep.front import Point
from reports.figures.sweep.number_words import figure
from reports.figures.sweep.observations import BY_NAME, SAFE, Configuration, Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """The best level of each setting together: a prediction to be confirmed, never a measurement."""

    settings: Configuration
    p99: Estimate | None  # None where nothing was repeated: luck, multiplied, foretells nothing
    sentence: str


def combine(
    points: Sequence[Point],
    observations: Sequence[Observation],
    p99: CellMeans | None,
    effects: Effects | None,
    baseline: Configuration | None,
) -> Combination | None:
    """One factor at a time: the safe level of each setting with clearly lower p99, put together. None if fewer than
    two settings have one. `effects` are those on p99."""
    if effects is None or p99 is None or effects.design != ONE_AT_A_TIME or baseline is None:
        return None
    safe = {point.configuration for point in points if point.safety == SAFE and point.damage.total == 0}
    noted = {item.configuration for item in observations if item.note}
    best: dict[str, tuple[str, Estimate]] = {}
    base = dict(baseline)
    for effect in effects.effects:
        configuration = tuple(sorted({**base, effect.setting: effect.value}.items()))
        if configuration not in safe or configuration in noted or effect.estimate.high >= 0:
            continue
        if effect.setting not in best or effect.estimate.value < best[effect.setting][1].value:
            best[effect.setting] = (effect.value, effect.estimate)
    start = p99.index(baseline)
    if len(best) < 2 or start is None:
        return None
    # All effects share the baseline, so one contrast: each chosen level, and the baseline as often as it is too much.
    weights = np.zeros(len(p99.configurations))
    weights[start] = 1 - len(best)
    for name, (level, _) in best.items():
        place = p99.index(tuple(sorted({**base, name: level}.items())))
        assert place is not None, "an effect was estimated from it"
        weights[place] = 1.0
    predicted = p99.difference(weights) if p99.repeated else None
    settings = tuple(sorted({**base, **{name: level for name, (level, _) in best.items()}}.items()))
    changed = " ".join(f"{name}={level}" for name, (level, _) in sorted(best.items()))
    hope = "each had the lower p99 by itself, in its one run"
    if predicted is not None:
        hope = (
            f"if their effects multiply, p99 would be {figure(predicted, BY_NAME['p99'])}, which being the best of "
            "several flatters"
        )
    sentence = (
        f"Worth a run: {changed} together were not measured; {hope}. Only a run of that configuration confirms it."
    )
    return Combination(settings=settings, p99=predicted, sentence=sentence)
