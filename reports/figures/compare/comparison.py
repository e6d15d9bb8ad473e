"""Better, worse, same or undecided, cell by cell and for the whole run, with false discoveries controlled. Pure.

The unit is the repetition: what happens inside one run says nothing of the next run. In a sweep on several clusters it
is the cluster: its repetitions of a cell become one, and its cells share its shift, so that the whole run is judged by
clusters or not at all (reports/figures/compare/clusters.py, docs/decisions/0007-forks.md). A cell needs four
repetitions a side to be judged alone; the whole run is judged over all cells together. Shown by
tests/reports/test_reports_comparison.py; `make prove` runs hundreds of A/A and planted comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from reports.figures.compare.clusters import ClusterLevels, cluster_levels
from reports.figures.measurements import Measurement, knows_compiler, with_compiler
from reports.figures.statistics.distributions import t_cdf
from reports.figures.statistics.permutation import (
    REPETITIONS_MIN,
    benjamini_hochberg,
    pooled_p_values,
    stratified_p_value,
)
from reports.figures.statistics.variance import Estimate, FloatArray, interval, moderate, repetitions_for, unbounded
from reports.figures.sweep.observations import MEASURES, NOT_SUSTAINED, Measure

BETTER, WORSE, SAME, UNDECIDED = "better", "worse", "same", "undecided"
FALSE_DISCOVERIES: Final = 0.05
RELEVANT: Final = 0.05  # a smaller change does not matter, unless the caller says otherwise
WHOLE_RUN: Final = "whole run"
GAP: Final = Measure(name="gap", title="longest gap without acknowledgement", unit="ms", more_is_better=False)
SUSTAINED: Final = Measure(name="sustained_rate", title="sustained rate", unit="records/s", more_is_better=True)
CORRECTNESS: Final = "correctness"
_CELLS_MIN: Final = 3  # fewer cells make no whole
_ROUNDING: Final = 1e-9  # of logarithms that are equal, as throughput is where every cell carried its rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    cell: str
    title: str
    measure: str
    unit: str
    base: float | None
    new: float | None
    change: Estimate | None  # ln(new / base)
    repetitions: tuple[int, int]
    p: float | None
    q: float | None  # p adjusted for all tests of its family
    result: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    rows: tuple[Row, ...]  # the whole run first
    relevant: float
    result: str

    @property
    def exit_code(self) -> int:
        return {WORSE: 1, UNDECIDED: 4}.get(self.result, 0)


Pairs = Mapping[str, tuple[Sequence[Measurement], Sequence[Measurement]]]


def pair_up(base: Sequence[Measurement], new: Sequence[Measurement]) -> Pairs:
    """Cells of both runs by name."""
    sides: list[dict[str, list[Measurement]]] = [{}, {}]
    for side, cells in zip(sides, (base, new), strict=True):
        for cell in cells:
            side.setdefault(cell.name, []).append(cell)
    return {name: (cells, sides[1][name]) for name, cells in sides[0].items() if name in sides[1]}


def _alike(
    base: Sequence[Measurement], new: Sequence[Measurement]
) -> tuple[Sequence[Measurement], Sequence[Measurement]]:
    """Broker CPU with the compilers' part on both sides where one of them does not know it."""
    if all(knows_compiler(side) for side in (base, new)):
        return base, new
    return [with_compiler(cell) for cell in base], [with_compiler(cell) for cell in new]


def compare(pairs: Pairs, *, relevant: float = RELEVANT, seed: int = 1, limit: Row | None = None) -> Comparison:
    """`limit` is the row of a rate search, if both runs hold one (search_row)."""
    pairs = {name: _alike(*sides) for name, sides in pairs.items()}
    cell_rows: list[Row] = []
    whole_rows: list[Row] = []
    for measure in (*MEASURES, GAP):
        cells, whole = _measure(measure, pairs, relevant, seed)
        cell_rows += cells
        whole_rows += whole
    # Two families: the cells are the same data once more, and their number is not to decide whether a change of the
    # whole run is found. Each holds its false discoveries at 5 %. Together they call runs that are alike worse in at
    # most 5 of 100 comparisons (`make prove`): they mostly find the same, and half of it is better.
    cell_rows = _adjusted(cell_rows, relevant)
    whole_rows = _adjusted(whole_rows, relevant)
    correctness = [_correctness(name, base, new) for name, (base, new) in pairs.items()]
    if limit is not None:
        whole_rows.append(limit)
    rows = (*whole_rows, *correctness, *cell_rows)
    return Comparison(
        rows=rows,
        relevant=relevant,
        result=_overall(whole_rows, correctness, cell_rows, measured=_was_to_measure(pairs)),
    )


def _was_to_measure(pairs: Pairs) -> bool:
    return any(cell.kind != "chaos" for base, _ in pairs.values() for cell in base)


def search_row(base: Mapping[str, Any], new: Mapping[str, Any], relevant: float) -> Row:
    """The sustained rates of two searches (search.json). Each interval is of one search: the two share no noise."""
    rates = [float(side["rate_per_s"]) for side in (base, new)]
    errors = [math.log(side["high_per_s"] / side["low_per_s"]) / (2 * 1.96) for side in (base, new)]
    change = interval(math.log(rates[1] / rates[0]), math.hypot(*errors), math.inf)
    margin = math.log1p(relevant)
    result, reason = UNDECIDED, "the intervals of the two limits are too wide; lower search.tolerance"
    outside = [name for name, side in (("BASE", base), ("NEW", new)) if side["ended_at"]]
    if base["contract"] != new["contract"]:
        reason = f"the contracts differ: BASE {base['contract']}, NEW {new['contract']}"
    elif outside:
        reason = f"the limit of {' and '.join(outside)} lies outside of what was searched"
    elif change.excludes_zero and abs(change.value) >= margin:
        result, reason = (BETTER if change.value > 0 else WORSE), "the interval excludes no change"
    elif -margin <= change.low and change.high <= margin:
        result, reason = SAME, f"the interval lies within ±{relevant:.0%}"
    return Row(
        cell=WHOLE_RUN, title="rate search", measure=SUSTAINED.name, unit=SUSTAINED.unit, base=rates[0], new=rates[1],
        change=change, repetitions=(len(base["probes"]), len(new["probes"])), p=None, q=None, result=result,
        reason=reason,
    )  # fmt: skip


def _overall(whole: Sequence[Row], correctness: Sequence[Row], cells: Sequence[Row], *, measured: bool) -> str:
    """Anything worse is worse. Cells that stay undecided one by one do not matter where the whole run is judged by the
    same measure, except those of which one side has no figure at all."""
    everything = [*whole, *correctness, *cells]
    if any(row.result == WORSE for row in everything):
        return WORSE
    one_sided = [row for row in cells if (row.base is None) != (row.new is None)]
    # Correctness alone decides for chaos; a run that was to measure something and has no figure decides nothing.
    judged_whole = {row.measure for row in whole}
    figures = [*whole, *(row for row in cells if row.measure not in judged_whole), *one_sided]
    deciding = [*figures, *correctness] if figures or not measured else []
    if not deciding or any(row.result == UNDECIDED for row in deciding):
        return UNDECIDED
    return BETTER if any(row.result == BETTER for row in everything) else SAME


def _figures(measure: Measure, cells: Sequence[Measurement]) -> list[tuple[Measurement, float]]:
    """The cells that have the figure, with it. Gaps are those of chaos cells: without a fault there is none."""
    found = []
    for cell in cells:
        value = cell.values.get(measure.name)
        if measure is GAP:
            value = cell.gap_ms if cell.kind == "chaos" else None
        if value is not None and value > 0:
            found.append((cell, value))
    return found


def _values(measure: Measure, cells: Sequence[Measurement]) -> FloatArray:
    """Logarithms, one a cell; one a cluster where the cells ran on several."""
    by_cluster: dict[int, list[float]] = {}
    for cell, value in _figures(measure, cells):
        by_cluster.setdefault(cell.fork, []).append(math.log(value))
    if len({cell.fork for cell in cells}) > 1:
        return np.array([np.mean(own) for own in by_cluster.values()], dtype=np.float64)
    return np.array([value for own in by_cluster.values() for value in own], dtype=np.float64)


def _measure(measure: Measure, pairs: Pairs, relevant: float, seed: int) -> tuple[list[Row], list[Row]]:
    sides = {name: (_values(measure, base), _values(measure, new)) for name, (base, new) in pairs.items()}
    told = [name for name, (base, new) in sides.items() if len(base) or len(new)]
    usable = [name for name in told if len(sides[name][0]) and len(sides[name][1])]
    p_values = dict(zip(usable, pooled_p_values([sides[name] for name in usable], seed), strict=True))
    estimates = dict(zip(usable, _estimates([sides[name] for name in usable]), strict=True))
    rows = []
    for name in told:
        base, new = sides[name]
        p = p_values.get(name, math.nan)
        rows.append(
            Row(
                cell=name,
                title=pairs[name][0][0].title,
                measure=measure.name,
                unit=measure.unit,
                base=_level(base, measure),
                new=_level(new, measure),
                change=estimates.get(name),
                repetitions=(len(base), len(new)),
                p=None if math.isnan(p) else float(p),
                q=None,
                result=UNDECIDED,
                reason=_why_untested(measure, *pairs[name], len(base), len(new), estimates.get(name), relevant),
            )
        )
    if len(usable) < _CELLS_MIN:
        return rows, []
    return rows, [_whole(measure, {name: pairs[name] for name in usable}, [sides[name] for name in usable], seed)]


def _level(values: FloatArray, measure: Measure) -> float | None:
    return math.exp(float(values.mean())) * measure.scale if len(values) else None


def _why_untested(
    measure: Measure,
    base: Sequence[Measurement],
    new: Sequence[Measurement],
    n_base: int,
    n_new: int,
    change: Estimate | None,
    relevant: float,
) -> str:
    for side, cells, number in (("BASE", base, n_base), ("NEW", new, n_new)):
        if not number:
            slow = next((cell for cell in cells if cell.state == NOT_SUSTAINED), None)
            why = slow.reason if slow else next((cell.reason for cell in cells if cell.reason), "not measured")
            return f"{side} has no figure: {why}"
    if min(n_base, n_new) < REPETITIONS_MIN:
        return f"{n_base} and {n_new} repetitions; {REPETITIONS_MIN} a side are needed to judge a cell alone"
    if change is not None and change.standard_error > 0:
        scatter = change.standard_error / math.sqrt(1 / n_base + 1 / n_new)
        needed = repetitions_for(math.log1p(relevant), scatter**2, groups=2)
        return f"too noisy; {needed or 'more than 10,000'} repetitions a side would show {relevant:.0%}"
    return ""


def _estimates(sides: Sequence[tuple[FloatArray, FloatArray]]) -> list[Estimate | None]:
    """Differences with intervals; the variance of each cell is drawn towards that of all."""
    dfs = np.array([max(len(base) + len(new) - 2, 0) for base, new in sides], dtype=np.float64)
    spreads = np.array(
        [
            (((base - base.mean()) ** 2).sum() + ((new - new.mean()) ** 2).sum()) / max(len(base) + len(new) - 2, 1)
            for base, new in sides
        ]
    )
    moderated = moderate(spreads, dfs) if len(sides) else None
    result: list[Estimate | None] = []
    for place, (base, new) in enumerate(sides):
        assert moderated is not None
        value = float(new.mean() - base.mean())
        if not dfs.any():
            result.append(unbounded(value))
            continue
        error = math.sqrt(float(moderated.variances[place]) * (1 / len(base) + 1 / len(new)))
        result.append(interval(value, error, float(moderated.dfs[place])))
    return result


def _whole(measure: Measure, pairs: Pairs, sides: Sequence[tuple[FloatArray, FloatArray]], seed: int) -> Row:
    """The mean change over all cells, judged by clusters where one of the runs had several, else by cells."""
    changes = np.array([new.mean() - base.mean() for base, new in sides])
    row = Row(
        cell=WHOLE_RUN,
        title=f"{WHOLE_RUN}, {len(sides)} cells",
        measure=measure.name,
        unit=measure.unit,
        base=None,
        new=None,
        change=unbounded(float(changes.mean())),
        repetitions=(sum(len(base) for base, _ in sides), sum(len(new) for _, new in sides)),
        p=None,
        q=None,
        result=UNDECIDED,
        reason="",
    )
    base, new = ([cell for pair in pairs.values() for cell in pair[side]] for side in (0, 1))
    if any(len({cell.fork for cell in run}) > 1 for run in (base, new)):
        levels = [cluster_levels(_figures(measure, run)) for run in (base, new)]
        return _whole_by_clusters(row, levels[0], levels[1])
    return _whole_by_cells(row, changes, stratified_p_value(sides, seed))


def _whole_by_cells(row: Row, changes: FloatArray, p: float) -> Row:
    """The interval is made of how much the cells differ among themselves."""
    error = float(changes.std(ddof=1)) / math.sqrt(len(changes))
    return replace(
        row,
        change=interval(float(changes.mean()), error, len(changes) - 1),
        p=p,
        reason=f"the {len(changes)} cells differ too much among themselves",
    )


def _whole_by_clusters(row: Row, base: ClusterLevels, new: ClusterLevels) -> Row:
    """Student's t over the clusters' levels: all cells of a cluster share its shift, so that exchanging labels cell by
    cell would take one cluster's luck for as many findings as it has cells. Where clusters cannot be told apart the
    row stays open, with neither p nor interval."""
    row = replace(row, repetitions=(base.count, new.count))
    unknown = [f"{name} {side.unknown}" for name, side in (("BASE", base), ("NEW", new)) if side.unknown]
    if unknown:
        return replace(row, reason="; ".join(unknown))
    df = base.count + new.count - 2
    squares = sum(float(((side.levels - side.levels.mean()) ** 2).sum()) for side in (base, new))
    error = max(math.sqrt(squares / df * (1 / base.count + 1 / new.count)), _ROUNDING)
    value = float(new.levels.mean() - base.levels.mean())
    return replace(
        row,
        change=interval(value, error, df),
        p=2 * (1 - t_cdf(abs(value) / error, df)),
        reason=f"{base.count} and {new.count} clusters scatter too much",
    )


def _adjusted(rows: Sequence[Row], relevant: float) -> list[Row]:
    """The family's false discoveries controlled, and each row judged."""
    tested = [row for row in rows if row.p is not None]
    adjusted = benjamini_hochberg(np.array([row.p for row in tested], dtype=np.float64))
    q_of = {id(row): float(q) for row, q in zip(tested, adjusted, strict=True)}
    return [_judged(row, q_of.get(id(row)), relevant) for row in rows]


def _judged(row: Row, q: float | None, relevant: float) -> Row:
    result, reason = row.result, row.reason
    change = row.change
    margin = math.log1p(relevant)
    if change is not None:
        more_is_better = next((m.more_is_better for m in (*MEASURES, GAP) if m.name == row.measure), False)
        if q is not None and q <= FALSE_DISCOVERIES and abs(change.value) >= margin:
            result = BETTER if (change.value > 0) == more_is_better else WORSE
            reason = f"q = {q:.3g}"
        elif -margin <= change.low and change.high <= margin:
            result, reason = SAME, f"the interval lies within ±{relevant:.0%}"
        elif q is not None and q <= FALSE_DISCOVERIES:
            reason = f"there is a difference (q = {q:.3g}), but whether it reaches {relevant:.0%} is open"
    return Row(
        cell=row.cell, title=row.title, measure=row.measure, unit=row.unit, base=row.base, new=row.new,
        change=change, repetitions=row.repetitions, p=row.p, q=q, result=result, reason=reason,
    )  # fmt: skip


def _correctness(name: str, base: Sequence[Measurement], new: Sequence[Measurement]) -> Row:
    """A promise that NEW breaks and BASE kept needs no statistics."""
    failed_base = [cell for cell in base if cell.verdict == "fail"]
    failed_new = [cell for cell in new if cell.verdict == "fail"]
    result, reason = SAME, "no cell fails" if not failed_new else f"both fail: {failed_new[0].verdict_reason}"
    if failed_new and not failed_base:
        result, reason = WORSE, f"NEW fails: {failed_new[0].verdict_reason}"
    elif failed_base and not failed_new:
        result, reason = BETTER, f"BASE failed: {failed_base[0].verdict_reason}"
    elif all(cell.verdict == "inconclusive" for cell in new):
        result, reason = UNDECIDED, f"NEW is inconclusive: {new[0].verdict_reason}"
    return Row(
        cell=name, title=base[0].title, measure=CORRECTNESS, unit="", base=None, new=None, change=None,
        repetitions=(len(base), len(new)), p=None, q=None, result=result, reason=reason,
    )  # fmt: skip
