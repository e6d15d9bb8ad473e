"""The section "How fast": one forest plot of all settings, with a column for each figure that shows a difference. Pure.

A value is drawn as its ratio to the baseline, with the 95 % interval of that ratio. An interval is drawn only if the
sweep was repeated, because an interval from inside a single run says nothing about the next run.
Shown by tests/reports/test_reports_overview.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from reports.figures.sweep.effects import NOT_CLEAR, ONE_AT_A_TIME, Effect, judgement
from reports.figures.sweep.front import Point
from reports.figures.sweep.number_words import change, effect_size, rounded, significant
from reports.figures.sweep.observations import (
    BY_NAME,
    CAPACITY,
    CLIENT_BOUND,
    LOSES_NONE,
    MARGIN,
    MAY_LOSE,
    MAY_LOSE_AND,
    MEASURES,
    NO_PROMISE,
    NOT_SUSTAINED,
    OK,
    P99,
    SAFE,
    THROUGHPUT,
    Configuration,
    Measure,
    Observation,
    state_words,
)
from reports.figures.sweep.sensitivity import REPETITIONS_MAX, TARGET
from reports.figures.sweep.sweep_analysis import SweepAnalysis
from reports.figures.sweep.telling import carried_all

COLUMNS_MAX: Final = 3
ROWS_MAX: Final = 18
_RISKS: Final = {MAY_LOSE: "may lose records", NO_PROMISE: "promises nothing"}
_SHORT: Final = {"max.in.flight.requests.per.connection": "max.in.flight", "enable.idempotence": "idempotence"}
_TITLES: Final = {"p99": "p99", "broker_cpu": "broker CPU a record", "wire_bytes": "bytes a record"}
_TICKS: Final = (0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.8, 1.0, 1.25, 2.0, 3.0, 5.0, 10.0, 100.0)
_UNDECIDED: Final = "undecided"
_APART: Final = 0.4  # share of the axis between two ticks: with less, their words would overlap
_ROOM: Final = 1.12  # the axis is longer than the outermost end by this factor


@dataclass(frozen=True, slots=True, kw_only=True)
class ForestValue:
    """`at`, `low` and `high` are shares of the axis. `low` and `high` are None if the interval is not known."""

    text: str
    change: str
    at: float
    low: float | None
    high: float | None
    judgement: str  # better, worse, negligible, undecided, or seen once


@dataclass(frozen=True, slots=True, kw_only=True)
class ForestRow:
    label: str
    cell_id: str  # empty if the setting has no cell of its own
    risk: str  # The risk that acknowledged records are lost. Empty if there is none.
    notes: tuple[str, ...]  # what else differs from the baseline
    warnings: tuple[str, ...]  # what a reader must know about its figures
    values: tuple[ForestValue | None, ...]  # One for each column.


@dataclass(frozen=True, slots=True, kw_only=True)
class ForestColumn:
    title: str
    unit: str
    direction: str  # more or less is better
    baseline: str  # the baseline's own figure
    one: float  # place of the baseline on the axis
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """`left_out` are figures that are the same for all settings."""

    columns: tuple[ForestColumn, ...]
    rows: tuple[ForestRow, ...]
    baseline: str
    repeated: bool
    warnings: tuple[str, ...]  # Those of the baseline, which has no row, and those that all rows have.
    left_out: tuple[str, ...]
    undecided: tuple[str, ...]  # For each figure, it says what this run cannot show, and how many repetitions would.
    more: int  # settings beyond those that are drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    """Logarithmic, in ratios to the baseline."""

    low: float
    high: float

    def place(self, ratio: float) -> float:
        inside = min(max(ratio, self.low), self.high)
        return round(math.log(inside / self.low) / math.log(self.high / self.low), 4)


def forest_of(analysis: SweepAnalysis) -> Forest | None:
    """None if the sweep has no effect to show."""
    measures = [measure for measure in MEASURES if _says_something(analysis, measure)]
    shown = measures[:COLUMNS_MAX]
    effects = {measure.name: analysis.effects[measure.name].effects for measure in shown}
    keys = list(dict.fromkeys((one.setting, one.value) for own in effects.values() for one in own))
    if not keys:
        return None
    kept = _strongest(keys, effects)
    axes = {measure.name: _axis(effects[measure.name]) for measure in shown}
    told = (*measures, *([] if carried_all(analysis.observations) else [BY_NAME[THROUGHPUT]]))
    compared = [measure for measure in MEASURES if measure.name in analysis.effects]
    left_out = [one.title for one in compared if analysis.effects[one.name].effects and one not in told]
    rows = [_row(analysis, key, shown, axes) for key in kept]
    shared = [word for word in rows[0].warnings if len(rows) > 1 and all(word in row.warnings for row in rows)]
    return Forest(
        columns=tuple(_column(analysis, measure, axes[measure.name]) for measure in shown),
        rows=tuple(replace(row, warnings=tuple(w for w in row.warnings if w not in shared)) for row in rows),
        warnings=(
            *_baseline_warnings([item for item in analysis.observations if item.configuration == analysis.baseline]),
            *(f"every setting: {word}" for word in shared),
            *_without_p99(analysis, shown),
        ),
        baseline="" if analysis.baseline is None else " ".join(f"{_name(n)}={v}" for n, v in analysis.baseline),
        repeated=any(analysis.means[measure.name].repeated for measure in shown),
        left_out=tuple(left_out),
        undecided=_undecided(analysis, shown),
        more=len(keys) - len(kept),
    )


def _without_p99(analysis: SweepAnalysis, shown: Sequence[Measure]) -> list[str]:
    """Why there is no p99. Most readers look for it, so its absence is explained."""
    if P99 in [measure.name for measure in shown] or not any(i.state == NOT_SUSTAINED for i in analysis.observations):
        return []
    return ["p99 is not drawn: too few settings carried their load, and of the others it is the length of the queue"]


def _says_something(analysis: SweepAnalysis, measure: Measure) -> bool:
    """False if every cell carried the rate that was asked for, or if no setting changes the figure."""
    own = analysis.effects.get(measure.name)
    if own is None or not own.effects:
        return False
    if measure.name == THROUGHPUT and (carried_all(analysis.observations) or CAPACITY in analysis.effects):
        return False  # the capacity says more than the share of the asked rate that a setting carried
    return measure.name == "p99" or any(abs(one.estimate.value) > MARGIN for one in own.effects)


def _strongest(keys: Sequence[tuple[str, str]], effects: Mapping[str, Sequence[Effect]]) -> list[tuple[str, str]]:
    """The settings with the largest effects, in the order of the sweep."""
    strength = dict.fromkeys(keys, 0.0)
    for own in effects.values():
        for one in own:
            key = (one.setting, one.value)
            strength[key] = max(strength[key], abs(one.estimate.value))
    chosen = set(sorted(keys, key=lambda key: -strength[key])[:ROWS_MAX])
    return [key for key in keys if key in chosen]


def _name(setting: str) -> str:
    return _SHORT.get(setting, setting)


# --- columns --------------------------------------------------------------------------------------------------------


def _axis(effects: Sequence[Effect]) -> _Axis:
    """Wide enough for every value, and for intervals up to three times as far."""
    low, high = 0.8, 1.25
    for effect in effects:
        value, lower, upper = effect.estimate.ratio
        has_interval = effect.repeated and effect.estimate.is_bounded
        low = min(low, max(lower, value / 3) if has_interval else value)
        high = max(high, min(upper, value * 3) if has_interval else value)
    return _Axis(low=low / _ROOM, high=high * _ROOM)


def _column(analysis: SweepAnalysis, measure: Measure, axis: _Axis) -> ForestColumn:
    level = None if analysis.baseline is None else analysis.means[measure.name].level(analysis.baseline)
    one = axis.place(1.0)
    # The plot is narrow. An end is named only if its words do not overlap those of the baseline.
    inside = [ratio for ratio in _TICKS if axis.low <= ratio <= axis.high and abs(axis.place(ratio) - one) >= _APART]
    below, above = [ratio for ratio in inside if ratio < 1], [ratio for ratio in inside if ratio > 1]
    # A scale needs two named ticks. If no round ratio has room, the farther end of the axis is named.
    end = axis.low if one > 1 - one else axis.high
    named = sorted((*below[:1], 1.0, *above[-1:], *([] if inside else [end])))
    return ForestColumn(
        title=_TITLES.get(measure.name, measure.title),
        unit=measure.unit,
        direction="more is better" if measure.more_is_better else "less is better",
        baseline="" if level is None else f"{significant(level.ratio[0] * measure.scale)} {measure.unit}",
        one=one,
        ticks=tuple((axis.place(ratio), f"×{rounded(ratio, 2)}") for ratio in named),
    )


# --- rows -----------------------------------------------------------------------------------------------------------


def _row(
    analysis: SweepAnalysis, key: tuple[str, str], measures: Sequence[Measure], axes: Mapping[str, _Axis]
) -> ForestRow:
    setting, value = key
    configuration = _configuration(analysis, setting, value)
    point = next((one for one in analysis.points if one.configuration == configuration), None)
    every = [item for item in analysis.observations if item.configuration == configuration]
    own = [item for item in every if not item.at_ceiling] or every
    return ForestRow(
        label=f"{_name(setting)}={value}",
        cell_id=own[0].cell_id if own else "",
        risk=_risk(own[0]) if own else "",
        notes=tuple(dict.fromkeys(f"not this alone: {item.note}" for item in own if item.note)),
        warnings=(*_warnings(own), *_ceiling_warnings(every)),
        values=tuple(_value(analysis, key, measure, axes[measure.name], point) for measure in measures),
    )


def _risk(own: Observation) -> str:
    """What its settings permit a fault to do: to lose records, or to duplicate or reorder them."""
    if own.safety == SAFE:
        return own.contract.removeprefix(LOSES_NONE) if own.contract.startswith(LOSES_NONE) else ""
    return own.contract if own.contract.startswith(MAY_LOSE_AND) else _RISKS.get(own.safety, "")


def _configuration(analysis: SweepAnalysis, setting: str, value: str) -> Configuration | None:
    """The configuration that differs from the baseline only in this setting. None if the design has no such one."""
    if analysis.baseline is None or analysis.design != ONE_AT_A_TIME:
        return None
    return tuple(sorted({**dict(analysis.baseline), setting: value}.items()))


def _value(
    analysis: SweepAnalysis, key: tuple[str, str], measure: Measure, axis: _Axis, point: Point | None
) -> ForestValue | None:
    effects = analysis.effects[measure.name].effects
    effect = next((one for one in effects if (one.setting, one.value) == key), None)
    if effect is None:
        return None
    ratio, low, high = effect.estimate.ratio
    level = point.levels.get(measure.name) if point is not None else None
    sure = effect.repeated and effect.estimate.is_bounded
    shown = f"{(ratio - 1) * 100:+.0f} %" if level is None else significant(level.ratio[0] * measure.scale)
    return ForestValue(
        text=shown,
        change=change(effect.estimate) if sure else f"{(ratio - 1) * 100:+.0f} %, seen once",
        at=axis.place(ratio),
        low=axis.place(low) if sure else None,
        high=axis.place(high) if sure else None,
        judgement=_judgement(effect),
    )


def _judgement(effect: Effect) -> str:
    if not effect.repeated:
        return "seen once"
    own = judgement(effect)
    return _UNDECIDED if own == NOT_CLEAR else own


def _undecided(analysis: SweepAnalysis, measures: Sequence[Measure]) -> tuple[str, ...]:
    """For each repeated figure: how many settings stay undecided, the smallest difference that this run can show, and
    how many repetitions would be needed."""
    lines = []
    for measure in measures:
        own = analysis.effects[measure.name].effects
        repeated = [one for one in own if one.repeated]
        count = sum(_judgement(one) == _UNDECIDED for one in repeated)
        sensitivity = next((one for one in analysis.sensitivities if one.measure == measure.name), None)
        if not count or sensitivity is None:
            continue
        needed = sensitivity.repetitions_for_target
        takes = f"{needed:,}" if needed is not None else f"more than {REPETITIONS_MAX:,}"
        lines.append(
            f"{_TITLES.get(measure.name, measure.title)}: {count} of {len(own)} undecided. With "
            f"{sensitivity.repetitions} repetitions a difference of {effect_size(sensitivity.smallest_effect)} is seen "
            f"4 times in 5, and a smaller one may be missed; to see {TARGET:.0%} takes {takes} repetitions"
        )
    return tuple(lines)


def _warnings(own: Sequence[Observation]) -> tuple[str, ...]:
    """The warnings of a configuration, joined over its repetitions."""
    found: dict[str, int] = {}
    for item in own:
        state = "" if item.state == OK else state_words(item.state).removeprefix("was ")
        for word in filter(None, (state, "disturbed" if item.disturbed else "")):
            found[word] = found.get(word, 0) + 1
    return tuple(
        word if count == len(own) else f"{word} in {count} of {len(own)} repetitions" for word, count in found.items()
    )


def _ceiling_warnings(every: Sequence[Observation]) -> list[str]:
    """Why a configuration has no capacity, or a capacity of fewer repetitions, or one that the client library
    limits."""
    ceilings = [item for item in every if item.at_ceiling]
    without = [item for item in ceilings if CAPACITY not in item.values]
    library = ["its capacity is the client library's"] if any(item.library_limit for item in ceilings) else []
    if not without:
        return library
    many = "" if len(without) == len(ceilings) else f" {len(without)} of {len(ceilings)}"
    bound = all(item.state == CLIENT_BOUND for item in without)
    why = "at the ceiling the load generator was the limit" if bound else "no ceiling was measured"
    return [f"{why}{many}", *library]


def _baseline_warnings(every: Sequence[Observation]) -> list[str]:
    """Warnings of the baseline. Every ratio is relative to it, but it has no row for its own warnings."""
    own = [item for item in every if not item.at_ceiling]
    words = [state_words(item.state) for item in own if item.state != OK]
    words += ["was disturbed by the host" for item in own if item.disturbed]
    many = len(own) > 1
    return [
        *(
            f"the baseline {word}{f' in {words.count(word)} of {len(own)} repetitions' if many else ''}: "
            "every row is drawn against it"
            for word in dict.fromkeys(words)
        ),
        *(f"the baseline: {word}" for word in _ceiling_warnings(every)),
    ]
