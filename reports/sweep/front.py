"""The Pareto front over throughput, p99, CPU, wire bytes and damage, and what each kind of setting may lose.

A configuration is on the front if no other is better in one thing and no worse in the rest. Figures closer than a
margin count as equal, and the whole comparison is drawn again from the intervals, because a front of noisy points is
mostly noise. Pure numpy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from reports.lawful import configuration_of
from reports.model import PREDICTED_KINDS, Cell
from reports.outputs import Judged
from reports.statistics.variance import Estimate, FloatArray
from reports.sweep.cell_means import CellMeans
from reports.sweep.observations import BY_NAME, MAY_LOSE, MEASURES, NO_PROMISE, SAFE, Configuration, Observation

MARGIN: Final = 0.02  # differences below 2 % count as none
_DRAWS: Final = 400
_RISK: Final = {SAFE: 0.0, MAY_LOSE: 1.0, NO_PROMISE: 2.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What chaos cells with the same promises did: the same acks, idempotence, in-flight, replication, minimum ISR."""

    cells: int = 0
    sent: int = 0
    lost: int = 0
    duplicated: int = 0
    reordered: int = 0

    @property
    def total(self) -> int:
        return self.lost + self.duplicated + self.reordered

    @property
    def per_million(self) -> float:
        return self.total * 1e6 / self.sent if self.sent else 0.0

    def text(self) -> str:
        if not self.cells:
            return "not tried under faults"
        return f"{self.lost:,} lost, {self.duplicated:,} duplicated, {self.reordered:,} reordered of {self.sent:,} sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One configuration on the surface."""

    configuration: Configuration
    title: str
    cell_id: str
    levels: Mapping[str, Estimate]  # measure -> ln(value) with interval
    safety: str
    damage: Damage
    comparable: bool  # no cell of it fell out
    share_on_front: float  # of the draws; 1.0 = surely on the front

    @property
    def on_front(self) -> bool:
        return self.share_on_front >= 0.5


def surface(
    observations: Sequence[Observation], means: Mapping[str, CellMeans], judged: Sequence[Judged]
) -> tuple[Point, ...]:
    """Every configuration that has a figure, with its damage and its place on the front."""
    first: dict[Configuration, Observation] = {}
    for item in observations:
        first.setdefault(item.configuration, item)
    cells = {item.facts.cell.cell_id: item.facts.cell for item in judged}
    damages = _damages(judged)
    rows = []
    for configuration, item in first.items():
        levels = {name: level for name, one in means.items() if (level := one.level(configuration)) is not None}
        if levels:
            rows.append((item, levels, damages.get(_promises(cells[item.cell_id]), Damage())))
    shares = _shares([(levels, item.safety, damage) for item, levels, damage in rows])
    return tuple(
        Point(
            configuration=item.configuration,
            title=item.title,
            cell_id=item.cell_id,
            levels=levels,
            safety=item.safety,
            damage=damage,
            comparable="p99" in levels,
            share_on_front=share,
        )
        for (item, levels, damage), share in zip(rows, shares, strict=True)
    )


_Promises = tuple[str, bool, bool, int, int]


def _promises(cell: Cell) -> _Promises:
    """What decides whether records may be lost, doubled or swapped; speed settings do not."""
    own = configuration_of(cell)
    may_swap = own.max_in_flight > 1 and not own.idempotence
    return own.acks, own.idempotence, may_swap, own.replication_factor, own.min_isr


def _damages(judged: Sequence[Judged]) -> dict[_Promises, Damage]:
    result: dict[_Promises, Damage] = {}
    for item in judged:
        facts = item.facts
        if facts.cell.kind != "chaos":
            continue
        key = _promises(facts.cell)
        before = result.get(key, Damage())
        lost, duplicated, reordered = (facts.set_count(kind) for kind in PREDICTED_KINDS)
        result[key] = Damage(
            cells=before.cells + 1,
            sent=before.sent + facts.counts.sent_total,
            lost=before.lost + lost,
            duplicated=before.duplicated + duplicated,
            reordered=before.reordered + reordered,
        )
    return result


def _shares(rows: Sequence[tuple[Mapping[str, Estimate], str, Damage]]) -> list[float]:
    """In what share of the draws each row is on the front. A figure that is missing is the worst of all."""
    if not rows:
        return []
    generator = np.random.default_rng(20_240_917)
    names = [measure.name for measure in MEASURES if any(measure.name in levels for levels, _, _ in rows)]
    count = np.zeros(len(rows))
    for _ in range(_DRAWS):
        table = np.full((len(rows), len(names) + 2), math.inf)
        for row, (levels, safety, damage) in enumerate(rows):
            for column, name in enumerate(names):
                level = levels.get(name)
                if level is not None:
                    drawn = level.value + level.standard_error * generator.standard_normal()
                    table[row, column] = -drawn if BY_NAME[name].more_is_better else drawn
            table[row, -2] = _RISK[safety]
            table[row, -1] = math.log1p(damage.per_million)
        count += ~dominated(table)
    return [float(share) for share in count / _DRAWS]


def dominated(table: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which rows another row beats: no worse than the margin in any column, better by more than it in one. Less is
    better in every column."""
    with np.errstate(invalid="ignore"):
        gap = table[None, :, :] - table[:, None, :]  # [i, j]: j minus i; negative: j is better
    gap = np.nan_to_num(gap, nan=0.0, posinf=math.inf, neginf=-math.inf)
    beats = (gap <= MARGIN).all(axis=2) & (gap < -MARGIN).any(axis=2)
    return np.asarray(beats.any(axis=1))
