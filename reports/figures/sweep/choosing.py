"""The rule by which a sweep recommends one configuration. recommendation_words.py puts it into sentences. Pure.

A configuration is considered only if it carried the load, may not lose acknowledged records, and showed no damage. Of
those within 5 % of the best rate, the lowest p99 wins. If no configuration carried the load, the highest rate wins.

The run may be unable to distinguish other configurations from the winner. If such a one is within 10 % of the winner's
figure and needs clearly less broker CPU, it is chosen instead. (The 10 % are needed because in a noisy run many
configurations cannot be distinguished and are still not equal.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from reports.figures.sweep.cell_means import CellMeans
from reports.figures.sweep.front import Point
from reports.figures.sweep.observations import (
    BROKER_CPU,
    BY_NAME,
    FAILED,
    MARGIN,
    NOT_SUSTAINED,
    OK,
    P99,
    SAFE,
    THROUGHPUT,
    Measure,
    Observation,
)
from runlog.records.measurements import FigureState

_RATE_SHARE: Final = 0.95  # a configuration within 5 % of the best rate may win by its p99
CHEAPER: Final = 0.05  # A smaller saving of broker CPU or bytes, in ln, is not worth a change.
_CLOSE: Final = math.log(1.10)
_DRAWS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    objective: Measure
    contenders: tuple[Point, ...]
    winner: Point  # has the best figure
    ties: tuple[Point, ...]  # the run cannot distinguish these from the winner
    chosen: Point  # the winner, or a cheaper tie


def choose(
    points: Sequence[Point], observations: Sequence[Observation], means: Mapping[str, CellMeans]
) -> Choice | None:
    """Applies the rule. None if nothing may be recommended. To correct for the choice of the best, prediction.py
    applies the rule again to a part of the observations."""
    candidates = [point for point in points if _eligible(point, observations)]
    objective, contenders = _objective(candidates)
    if not candidates:
        objective = BY_NAME[THROUGHPUT]
        contenders = [point for point in points if _eligible_by_rate(point, observations)]
    if not contenders:
        return None
    winner = min(contenders, key=lambda point: _goodness(point, objective))
    ties = [p for p in contenders if p is not winner and not _clearly_worse(p, winner, objective, means)]
    close = [point for point in ties if _goodness(point, objective) <= _goodness(winner, objective) + _CLOSE]
    return Choice(
        objective=objective,
        contenders=tuple(contenders),
        winner=winner,
        ties=tuple(ties),
        chosen=_cheapest(winner, close, means),
    )


def _eligible(point: Point, observations: Sequence[Observation]) -> bool:
    return point.comparable and _is_sound(point, observations, usable=(OK,), excluded=(FAILED, NOT_SUSTAINED))


def _eligible_by_rate(point: Point, observations: Sequence[Observation]) -> bool:
    """If no configuration carried the asked rate, those are eligible whose limit was the brokers and not the client."""
    return THROUGHPUT in point.levels and _is_sound(point, observations, usable=(OK, NOT_SUSTAINED), excluded=(FAILED,))


def _is_sound(
    point: Point, observations: Sequence[Observation], *, usable: Sequence[FigureState], excluded: Sequence[FigureState]
) -> bool:
    """Safe, undamaged, trusted by the verdict more often than not, and never seen to do what is excluded: the good
    repetitions of a configuration that failed in another one would flatter it. What the host did to a cell is not held
    against it."""
    own = [item for item in observations if item.configuration == point.configuration and not item.at_ceiling]
    bad = [item for item in own if item.state in excluded and not (item.state == NOT_SUSTAINED and item.disturbed)]
    good = sum(item.state in usable and item.trusted for item in own)
    return point.safety == SAFE and point.damage.total == 0 and not bad and good * 2 > len(own)


def _objective(candidates: Sequence[Point]) -> tuple[Measure, list[Point]]:
    """Rate decides if the candidates differ in it; else p99 among all."""
    rates = {id(point): point.levels[THROUGHPUT].value for point in candidates if THROUGHPUT in point.levels}
    best = max(rates.values(), default=0.0)
    near = [point for point in candidates if rates.get(id(point), -math.inf) >= best + math.log(_RATE_SHARE)]
    return BY_NAME[P99], near or list(candidates)


def _goodness(point: Point, measure: Measure) -> float:
    value = point.levels[measure.name].value
    return -value if measure.more_is_better else value


def _clearly_worse(point: Point, winner: Point, measure: Measure, means: Mapping[str, CellMeans]) -> bool:
    difference = means[measure.name].between(winner.configuration, point.configuration)
    if difference is None:
        return True
    return difference.high < 0 if measure.more_is_better else difference.low > 0


def _cheapest(winner: Point, ties: Sequence[Point], means: Mapping[str, CellMeans]) -> Point:
    """A tie that needs clearly less broker CPU, else the winner."""
    cpu = means.get(BROKER_CPU)
    if cpu is None:
        return winner
    cheaper = [
        (difference.value, point)
        for point in ties
        if (difference := cpu.between(winner.configuration, point.configuration)) is not None
        and difference.high < 0
        and difference.value < -CHEAPER
    ]
    return min(cheaper, key=lambda pair: pair[0])[1] if cheaper else winner


def certainty_of(choice: Choice) -> float:
    """Share of draws from the intervals in which the choice is the best, or within the margin of the best."""
    contenders, measure = choice.contenders, choice.objective
    generator = np.random.default_rng(20_240_917)
    centre = np.array([_goodness(point, measure) for point in contenders])
    standing = [point.standing[measure.name] for point in contenders]
    error = np.array([one.standard_error if one.is_bounded else 0.0 for one in standing])
    df = np.array([min(max(one.df, 1.0), 1e6) for one in standing])
    drawn = centre + error * generator.standard_t(df, size=(_DRAWS, len(contenders)))
    place = next(i for i, point in enumerate(contenders) if point is choice.chosen)
    return float((drawn[:, place] <= drawn.min(axis=1) + MARGIN).mean())
