"""The Pareto front over throughput, p99, CPU, wire bytes and damage, and what each kind of setting may lose.

A configuration is on the front if no other one is better in one measure and no worse in the rest. Figures closer than a
margin count as equal. The comparison is repeated with values drawn from the intervals, because a front of noisy points
is mostly noise. Pure numpy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from reports.evidence.configuration import configuration_of
from reports.figures.statistics.variance import Estimate, FloatArray
from reports.figures.sweep.cell_means import CellMeans
from reports.figures.sweep.observations import (
    BY_NAME,
    MARGIN,
    MAY_LOSE,
    NO_PROMISE,
    P99,
    SAFE,
    THROUGHPUT,
    Configuration,
    Observation,
)
from reports.figures.sweep.telling import telling
from reports.judge.judged import Judged
from reports.read.cell import Cell
from reports.read.model import PREDICTED_KINDS, CellFacts

_DRAWS: Final = 400
_DF_MAX: Final = 1e6  # as good as normal
INFERRED: Final = "not run under faults; inferred from cells with its acks, idempotence and in flight"
_RISK: Final = {SAFE: 0.0, MAY_LOSE: 1.0, NO_PROMISE: 2.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What faults did to chaos cells with the same acks and promises (ISR, idempotence, requests in flight)."""

    cells: int = 0
    is_own: bool = False  # one of these cells has all settings of the configuration itself
    struck: tuple[str, ...] = ()  # `2,052 of 18,000 lost under leader loss`: what was damaged, by fault and kind
    lost: int = 0
    duplicated: int = 0
    reordered: int = 0
    # Each kind of damage is judged by cells of its own, those whose settings promise the same of it.
    sent: Mapping[str, int] = field(default_factory=dict)  # kind -> records that those cells sent
    # Kind -> share of the records that were damaged under the fault that damaged most: cells under different faults
    # have no common rate. A kind without a cell that tells of it is absent.
    worst: Mapping[str, float] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        return {"lost": self.lost, "duplicated": self.duplicated, "reordered": self.reordered}

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def per_million(self) -> float:
        """Damaged records of a million that were sent under the worst fault of each kind, all kinds added up. It gives
        the front its order, and is never shown."""
        return sum(self.per_million_of(kind) or 0.0 for kind in self.counts)

    def per_million_of(self, kind: str) -> float | None:
        """Of a million records sent under the fault that damaged most in this way. None if no cell tells of it."""
        return self.worst[kind] * 1e6 if kind in self.worst else None

    def text(self) -> str:
        if not self.cells:
            return "not tried under faults"
        return self.counted if self.is_own else f"{INFERRED}: {self.counted}"

    @property
    def counted(self) -> str:
        """Plain counts of those cells, whichever they are."""
        return ", ".join([*self.struck, *(self._unharmed(kind) for kind, count in self.counts.items() if not count)])

    def _unharmed(self, kind: str) -> str:
        return f"none {kind} of {self.sent[kind]:,}" if self.sent.get(kind) else f"{kind}: not tried"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One configuration on the surface."""

    configuration: Configuration  # the declared levels
    ran_with: Configuration  # the same settings, as its cells had them
    title: str
    cell_id: str
    levels: Mapping[str, Estimate]  # measure -> ln(value) with interval
    standing: Mapping[str, Estimate]  # the same as it counts beside the others: without what all of them share
    safety: str
    contract: str
    damage: Damage
    comparable: bool  # no cell of it fell out
    share_on_front: float  # A share of the draws. 1.0: surely on the front.

    @property
    def on_front(self) -> bool:
        return self.share_on_front >= 0.5


def surface(
    observations: Sequence[Observation], means: Mapping[str, CellMeans], judged: Sequence[Judged]
) -> tuple[Point, ...]:
    """Every configuration that has a figure, with its damage and its place on the front."""
    first: dict[Configuration, Observation] = {}
    for item in sorted(observations, key=lambda item: item.at_ceiling):
        first.setdefault(item.configuration, item)
    cells = {item.facts.cell.cell_id: item.facts.cell for item in judged}
    chaos = [item.facts for item in judged if item.facts.cell.kind == "chaos"]
    counted = telling(observations)
    rows = []
    for configuration, item in first.items():
        levels = {name: level for name, one in means.items() if (level := one.level(configuration)) is not None}
        if THROUGHPUT in levels and item.asked_per_s:
            levels[THROUGHPUT] = _within(levels[THROUGHPUT], math.log(item.asked_per_s))
        standing = {name: own for name, one in means.items() if (own := one.standing(configuration)) is not None}
        if levels:
            rows.append((item, levels, standing, _damage(cells[item.cell_id], chaos)))
    shares = _shares([(standing, item.safety, damage) for item, _, standing, damage in rows], counted)
    return tuple(
        Point(
            configuration=item.configuration,
            ran_with=item.ran_with,
            title=item.title,
            cell_id=item.cell_id,
            levels=levels,
            standing=standing,
            safety=item.safety,
            contract=item.contract,
            damage=damage,
            comparable=P99 in levels,
            share_on_front=share,
        )
        for (item, levels, standing, damage), share in zip(rows, shares, strict=True)
    )


def _within(level: Estimate, most: float) -> Estimate:
    """A rate that was asked for is never passed, so its interval is not either."""
    return replace(level, low=min(level.low, most), high=max(level.value, min(level.high, most)))


def _promise(kind: str, cell: Cell) -> tuple[object, ...]:
    """The settings that decide whether a fault can cause this kind of damage; speed settings do not. With another acks
    a fault may meet other requests under way, so cells with another one say nothing here."""
    own = configuration_of(cell)
    if kind == "lost":
        # A minimum ISR only refuses writes that ask for all of it.
        return own.acks, own.replication_factor, own.min_isr if own.acks == "all" else 0
    if kind == "duplicated":
        return own.acks, own.idempotence
    return own.acks, own.max_in_flight > 1 and not own.idempotence


def _damage(cell: Cell, chaos: Sequence[CellFacts]) -> Damage:
    """What faults did to cells whose settings make the same promise, kind by kind."""
    like = {
        kind: [facts for facts in chaos if _promise(kind, facts.cell) == _promise(kind, cell)]
        for kind in PREDICTED_KINDS
    }
    counts = {kind: sum(facts.set_count(kind) for facts in group) for kind, group in like.items()}
    sent = {kind: sum(facts.counts.sent_total for facts in group) for kind, group in like.items()}
    every = {facts.cell.cell_id: facts for group in like.values() for facts in group}
    return Damage(
        cells=len(every),
        is_own=any(_has_settings_of(facts.cell, cell) for facts in every.values()),
        struck=tuple(text for kind, group in like.items() for text in _struck(kind, group)),
        sent=sent,
        worst={
            kind: max(count / number for count, number in found)
            for kind, group in like.items()
            if (found := [own for own in _by_fault(kind, group).values() if own[1]])
        },
        **counts,
    )


def _has_settings_of(one: Cell, other: Cell) -> bool:
    return all(one.record.properties.get(name) == value for name, value in other.record.properties.items())


def _struck(kind: str, group: Sequence[CellFacts]) -> Iterator[str]:
    """Plain counts, fault by fault."""
    for fault, (count, sent) in _by_fault(kind, group).items():
        if count:
            yield f"{count:,} of {sent:,} {kind} under {fault}"


def _by_fault(kind: str, group: Sequence[CellFacts]) -> dict[str, tuple[int, int]]:
    """Scenario -> records damaged in this way, and records sent."""
    found: dict[str, tuple[int, int]] = {}
    for facts in group:
        fault = (facts.cell.record.scenario or "faults").replace("-", " ")
        count, sent = found.get(fault, (0, 0))
        found[fault] = (count + facts.set_count(kind), sent + facts.counts.sent_total)
    return found


def _shares(rows: Sequence[tuple[Mapping[str, Estimate], str, Damage]], measures: Sequence[str]) -> list[float]:
    """The share of draws in which each row is on the front of these measures. A missing figure counts as the worst of
    all; one whose scatter is unknown stands as it was measured."""
    if not rows:
        return []
    generator = np.random.default_rng(20_240_917)
    names = [name for name in measures if any(name in levels for levels, _, _ in rows)]
    count = np.zeros(len(rows))
    for _ in range(_DRAWS):
        table = np.full((len(rows), len(names) + 2), math.inf)
        for row, (levels, safety, damage) in enumerate(rows):
            for column, name in enumerate(names):
                level = levels.get(name)
                if level is not None:
                    error = level.standard_error if level.is_bounded else 0.0
                    df = min(max(level.df, 1.0), _DF_MAX)
                    drawn = level.value + error * generator.standard_t(df)
                    table[row, column] = -drawn if BY_NAME[name].more_is_better else drawn
            table[row, -2] = _RISK[safety]
            table[row, -1] = math.log1p(damage.per_million)
        count += ~dominated(table)
    return [float(share) for share in count / _DRAWS]


def dominated(table: FloatArray) -> npt.NDArray[np.bool_]:
    """Which rows another row beats: no worse than the margin in any column, better by more than it in one. Less is
    better in every column."""
    with np.errstate(invalid="ignore"):
        gap = table[None, :, :] - table[:, None, :]  # [i, j]: j minus i; negative: j is better
    gap = np.nan_to_num(gap, nan=0.0, posinf=math.inf, neginf=-math.inf)
    beats = np.all(gap <= MARGIN, axis=2) & np.any(gap < -MARGIN, axis=2)
    return np.asarray(np.any(beats, axis=1), dtype=np.bool_)
