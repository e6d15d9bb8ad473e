"""Main effects and interactions as ratios with 95 % intervals, from the configurations' means.

- One factor at a time: each configuration is compared with the baseline.
- Any other design: least squares on the logarithms, with one column for each level (or one slope for a number with many
  values). So effects multiply.

All effects on one measure are shown together, so their intervals hold together (Bonferroni): in 95 of 100 sweeps each
of them has its effect. If the design cannot separate two effects, the result says so and does not guess. Pure
numpy.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from reports.figures.statistics.variance import Estimate, FloatArray, interval
from reports.figures.sweep.cell_means import CellMeans
from reports.figures.sweep.observations import BY_NAME, MARGIN, Configuration, by_value

BETTER, WORSE, NEGLIGIBLE, NOT_CLEAR = "better", "worse", "negligible", "not clear"
ONE_AT_A_TIME, FACTORIAL = "one factor at a time", "factorial"
_LEVELS_MAX = 6  # a number with more values than this gets a slope, not a column each
_PARALLEL = 0.999
_MISFIT_MAX = 2.5  # about the 95 % point of the F distribution for the degrees of freedom of usual sweeps


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """`value` against `reference` of one setting: ratio of the measure with its interval."""

    measure: str
    setting: str
    reference: str
    value: str
    estimate: Estimate
    repeated: bool
    trusted: bool = True  # The verdict trusts both sides.
    note: str = ""

    @property
    def clear(self) -> bool:
        return self.estimate.excludes_zero


@dataclass(frozen=True, slots=True, kw_only=True)
class Interaction:
    """How much the effect of the first setting changes when the second is changed too: a ratio of ratios."""

    measure: str
    first: str  # setting=value
    second: str
    settings: tuple[str, str]
    estimate: Estimate
    inseparable: tuple[str, ...] = ()  # other pairs that this design cannot tell from this one


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    design: str
    effects: tuple[Effect, ...]
    interactions: tuple[Interaction, ...]
    why_no_interactions: str


def is_one_at_a_time(configurations: Sequence[Configuration], baseline: Configuration | None) -> bool:
    if baseline is None:
        return False
    return all(len(_changed(baseline, one)) <= 1 for one in configurations)


def _changed(baseline: Configuration, other: Configuration) -> list[tuple[str, str, str]]:
    """(setting, value in the baseline, value in the other) where they differ."""
    base = dict(baseline)
    return [(name, base.get(name, ""), value) for name, value in other if base.get(name, "") != value]


def estimate_effects(means: CellMeans, baseline: Configuration | None) -> Effects:
    if is_one_at_a_time(means.configurations, baseline):
        assert baseline is not None
        return _against_baseline(means, baseline)
    return _by_regression(means, baseline)


def _against_baseline(means: CellMeans, baseline: Configuration) -> Effects:
    effects = []
    for other in means.configurations:
        changed = _changed(baseline, other)
        estimate = means.between(baseline, other)
        if changed and estimate is not None:
            setting, reference, value = changed[0]
            effects.append(
                Effect(
                    measure=means.measure, setting=setting, reference=reference, value=value, estimate=estimate,
                    repeated=means.repeated, trusted=not means.doubted & {baseline, other},
                )
            )  # fmt: skip
    effects.sort(key=lambda effect: (effect.setting, by_value(effect.value)))
    return Effects(
        design=ONE_AT_A_TIME,
        effects=tuple(effects),
        interactions=(),
        why_no_interactions="one factor at a time cannot show interactions: run `design: grid` or `design: fractional`",
    )


# --- regression -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    setting: str
    reference: str
    value: str
    x: FloatArray


def _columns(configurations: Sequence[Configuration], baseline: Configuration | None) -> list[_Column]:
    settings = [dict(one) for one in configurations]
    base = dict(baseline or ())
    columns: list[_Column] = []
    for name in sorted({name for one in settings for name in one}):
        values = [one.get(name, "") for one in settings]
        levels = sorted(set(values), key=by_value)
        numeric = all(by_value(level)[0] == 0 for level in levels)
        if len(levels) < 2:
            continue
        if numeric and len(levels) > _LEVELS_MAX:
            columns.append(_slope(name, values, levels))
            continue
        reference = base.get(name, levels[0])
        reference = reference if reference in levels else levels[0]
        columns += [
            _Column(setting=name, reference=reference, value=level, x=np.array([float(v == level) for v in values]))
            for level in levels
            if level != reference
        ]
    return columns


def _slope(name: str, values: Sequence[str], levels: Sequence[str]) -> _Column:
    """The effect from the smallest to the largest value. Each doubling of the value has the same effect."""
    numbers = np.array([float(value) for value in values])
    logs = np.log2(numbers) if numbers.min() > 0 else np.log2(numbers - min(0.0, numbers.min()) + 1.0)
    return _Column(
        setting=name,
        reference=levels[0],
        value=levels[-1],
        x=(logs - logs.min()) / (logs.max() - logs.min()),
    )


def _by_regression(means: CellMeans, baseline: Configuration | None) -> Effects:
    columns = _columns(means.configurations, baseline)
    count = len(means.configurations)
    design = np.column_stack([np.ones(count), *(column.x for column in columns)])
    if np.linalg.matrix_rank(design) < design.shape[1]:
        return Effects(
            design=FACTORIAL,
            effects=(),
            interactions=(),
            why_no_interactions=f"{count} usable configurations cannot carry {len(columns)} effects",
        )
    inverse = np.linalg.pinv(design)
    misfit = None if _is_full_grid(means.configurations) else _misfit(means, design)
    effects = tuple(
        Effect(
            measure=means.measure, setting=column.setting, reference=column.reference, value=column.value,
            estimate=_with_misfit(
                means.difference(inverse[place], comparisons=len(columns)), inverse[place], misfit, len(columns)
            ), repeated=means.repeated,
            trusted=_is_trusted(means, column),
        )
        for place, column in enumerate(columns, start=1)
    )  # fmt: skip
    interactions, why = _interactions(means, columns, design)
    if len(means.doubted) * 2 >= count:
        interactions, why = (), f"the verdict does not trust {len(means.doubted)} of {count} configurations"
    return Effects(design=FACTORIAL, effects=effects, interactions=interactions, why_no_interactions=why)


def _is_trusted(means: CellMeans, column: _Column) -> bool:
    """Whether the verdict trusts more than half of the configurations on each side of a column."""
    sides: dict[bool, list[bool]] = {}
    for configuration, x in zip(means.configurations, column.x, strict=True):
        sides.setdefault(bool(x >= 0.5), []).append(configuration not in means.doubted)
    return all(sum(own) * 2 > len(own) for own in sides.values())


def smooth(means: CellMeans, effects: Effects, baseline: Configuration | None) -> CellMeans:
    """The means that follow from main effects and clear interactions. In a factorial design all cells contribute to
    each.

    The means are not changed if one factor was varied at a time, or if the model leaves more unexplained than noise
    would.
    """
    if effects.design != FACTORIAL or not effects.effects:
        return means
    columns = _columns(means.configurations, baseline)
    by_level = {f"{column.setting}={column.value}": column.x for column in columns}
    clear = [item for item in effects.interactions if item.estimate.excludes_zero and not item.inseparable]
    products = [by_level[item.first] * by_level[item.second] for item in clear]
    count = len(means.configurations)
    design = np.column_stack([np.ones(count), *(column.x for column in columns), *products])
    room = count - int(np.linalg.matrix_rank(design))
    projection = design @ np.linalg.pinv(design)
    residuals = means.means - projection @ means.means
    noise = float(means.mean_variances.mean())
    if room < 1 or math.isinf(noise) or float((residuals**2).sum()) / room > _MISFIT_MAX * noise:
        return means
    return replace(means, projection=projection)


def _is_full_grid(configurations: Sequence[Configuration]) -> bool:
    levels: dict[str, set[str]] = {}
    for configuration in configurations:
        for name, value in configuration:
            levels.setdefault(name, set()).add(value)
    return len(set(configurations)) == math.prod(len(values) for values in levels.values())


def _misfit(means: CellMeans, design: FloatArray) -> tuple[float, int] | None:
    """The variance that main effects leave unexplained, and its degrees of freedom. None if it is no larger than the
    known noise.

    A sample of the grid (fractional, Latin hypercube) mixes interactions, which are not in the model, into each main
    effect. So an interval from the noise alone would be too narrow.
    """
    room = design.shape[0] - design.shape[1]
    if room < 2:
        return None
    residuals = means.means - design @ (np.linalg.pinv(design) @ means.means)
    variance = float((residuals**2).sum()) / room
    noise = float(means.mean_variances.mean())
    return (variance, room) if variance > noise or math.isinf(noise) else None


def _with_misfit(
    estimate: Estimate, weights: FloatArray, misfit: tuple[float, int] | None, comparisons: int
) -> Estimate:
    if misfit is None:
        return estimate
    variance, room = misfit
    by_misfit = interval(estimate.value, math.sqrt(variance * float(weights @ weights)), room, comparisons)
    if not estimate.is_bounded:
        return by_misfit  # all that there is
    return by_misfit if by_misfit.high - by_misfit.low > estimate.high - estimate.low else estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class _Product:
    first: _Column
    second: _Column
    direction: FloatArray  # the part of the product that main effects cannot explain; length 1
    estimate: Estimate


def _interactions(
    means: CellMeans, columns: Sequence[_Column], design: FloatArray
) -> tuple[tuple[Interaction, ...], str]:
    """The strongest interaction of each pair of settings; its interval holds for all contrasts of the pair."""
    settings = list(dict.fromkeys(column.setting for column in columns))
    strongest: list[_Product] = []
    hidden: list[str] = []
    for one, other in itertools.combinations(settings, 2):
        firsts = [column for column in columns if column.setting == one]
        seconds = [column for column in columns if column.setting == other]
        pairs = list(itertools.product(firsts, seconds))
        products = _estimable(means, design, pairs)
        if products:
            strongest.append(max(products, key=lambda item: _strength(item.estimate)))
        else:
            hidden.append(f"{one} x {other}")
    found = tuple(
        Interaction(
            measure=means.measure,
            first=f"{item.first.setting}={item.first.value}",
            second=f"{item.second.setting}={item.second.value}",
            settings=(item.first.setting, item.second.setting),
            estimate=item.estimate,
            inseparable=tuple(
                f"{other.first.setting} x {other.second.setting}"
                for other in strongest
                if other is not item and abs(float(item.direction @ other.direction)) > _PARALLEL
            ),
        )
        for item in strongest
    )
    return found, f"this design cannot tell from main effects: {', '.join(hidden)}" if hidden else ""


def _strength(estimate: Estimate) -> float:
    return abs(estimate.value) / estimate.standard_error if estimate.standard_error > 0 else abs(estimate.value) * 1e12


def _estimable(means: CellMeans, design: FloatArray, pairs: Sequence[tuple[_Column, _Column]]) -> list[_Product]:
    """For each product, the part that main effects and the pair's other products cannot explain. Empty if there is
    none."""
    result: list[_Product] = []
    for place, (first, second) in enumerate(pairs):
        others = [a.x * b.x for number, (a, b) in enumerate(pairs) if number != place]
        known = np.column_stack([design, *others]) if others else design
        product = first.x * second.x
        rest = product - known @ (np.linalg.pinv(known) @ product)
        length = float(np.linalg.norm(rest))
        if length < 1e-6 * max(1.0, float(np.linalg.norm(product))):
            return []
        estimate = means.difference(rest / length**2, comparisons=len(pairs))
        result.append(_Product(first=first, second=second, direction=rest / length, estimate=estimate))
    return result


def judgement(effect: Effect) -> str:
    """Judges the effect by the rule of `harness compare`. BETTER and WORSE: the interval excludes "no change", and the
    change is at least MARGIN. NEGLIGIBLE: the whole interval is smaller than that, even if the effect is certain: 0.1 %
    more bytes decide nothing. A configuration that ran once is neither, and so is one that the verdict does not
    trust."""
    own, margin = effect.estimate, math.log1p(MARGIN)
    if not effect.repeated or not effect.trusted:
        return NOT_CLEAR
    if -margin < own.low and own.high < margin:
        return NEGLIGIBLE
    if not effect.clear or abs(own.value) < margin:
        return NOT_CLEAR
    return BETTER if (own.value > 0) == BY_NAME[effect.measure].more_is_better else WORSE
