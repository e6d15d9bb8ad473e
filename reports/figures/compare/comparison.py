"""Better, worse, same or undecided, cell by cell and for the whole run, with false discoveries controlled. Pure.

The unit is the repetition, because the scatter inside one repetition says nothing about the next one. In a sweep on
several clusters the unit is the cluster: its repetitions of a cell become one figure. A cell needs four repetitions on
each side to be judged alone.

The whole run is judged over all cells together, by clusters, or by rounds if it has one cluster. The reason is that all
cells of a cluster or round are shifted together (reports/figures/compare/blocks.py, docs/decisions/0007-forks.md). So a
run without repetitions decides nothing.

Test and interval use one model, Student's t: a change is called better or worse only if its interval excludes "no
change".
Shown by tests/reports/test_reports_comparison.py and test_reports_one_model.py; `make prove` runs hundreds of A/A and
planted comparisons, `make prove-same` runs real ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from reports.figures.compare.blocks import block_levels, blocks_of
from reports.figures.measurements import knows_compiler, with_compiler
from reports.figures.statistics.discoveries import benjamini_hochberg, comparisons_of
from reports.figures.statistics.distributions import t_cdf
from reports.figures.statistics.variance import Estimate, FloatArray, interval, moderate, repetitions_for, unbounded
from reports.figures.sweep.observations import MEASURES, NOT_SUSTAINED, Measure
from runlog.records.codec import to_json
from runlog.records.comparison import Change
from runlog.records.measurements import Measurement
from runlog.records.search import SearchEnd, SearchRecord

BETTER, WORSE, SAME, UNDECIDED = Change.BETTER, Change.WORSE, Change.SAME, Change.UNDECIDED
RELEVANT: Final = 0.05  # a smaller change does not matter, unless the caller says otherwise
WHOLE_RUN: Final = "whole run"
GAP: Final = Measure(name="gap", title="longest gap without acknowledgement", unit="ms", more_is_better=False)
# The limit of a rate search. The rate that it reports has no interval of its own.
SEARCHED: Final = Measure(
    name="rate_kept_by_half", title="rate that half of the tries keep", unit="records/s", more_is_better=True
)
CORRECTNESS: Final = "correctness"
TOO_NOISY: Final = "too noisy"
REPETITIONS_MIN: Final = 4  # A cell has at least so many on each side. Fewer do not show the scatter well enough.
_CELLS_MIN: Final = 3  # with fewer cells, the whole run is not judged
_ERROR_MAX: Final = 1 - 1e-9  # A share of a gap. A gap that is not above its error is not shown.
_ROUNDING: Final = 1e-9  # Equal logarithms differ by less, for example of throughput if every cell carried its rate.


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    cell: str
    title: str
    measure: str
    unit: str
    base: float | None
    new: float | None
    change: Estimate | None  # ln(new / base); its interval holds together with those of its family
    repetitions: tuple[int, int]
    p: float | None
    q: float | None  # p adjusted for all tests of its family
    result: Change
    reason: str
    of_clocks: float = 0.0  # how much the change can be wrong by the clocks of load hosts; its interval holds this too


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    rows: tuple[Row, ...]  # the whole run first
    relevant: float
    result: Change

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


def pair_alone(base: Sequence[Measurement], new: Sequence[Measurement]) -> Pairs:
    """The one configuration of each run, as `harness bench` measures it, whatever the two are called. Empty if a run
    has several, or is no measurement."""
    names = [{cell.name for cell in side} for side in (base, new)]
    if any(len(own) != 1 for own in names) or any(cell.kind != "sweep" for cell in (*base, *new)):
        return {}
    return {" -> ".join(name for own in names for name in own): (list(base), list(new))}


def _alike(
    base: Sequence[Measurement], new: Sequence[Measurement]
) -> tuple[Sequence[Measurement], Sequence[Measurement]]:
    """Broker CPU of both sides. It includes the compilers' part if one side did not record that part."""
    if all(knows_compiler(side) for side in (base, new)):
        return base, new
    return [with_compiler(cell) for cell in base], [with_compiler(cell) for cell in new]


def compare(
    pairs: Pairs, *, relevant: float = RELEVANT, limit: Row | None = None, unequal: Sequence[str] = ()
) -> Comparison:
    """`limit` is the row of a rate search, if both runs have one (search_row). `unequal` says why the hosts were not
    alike during the two runs. Then no figure decides."""
    pairs = {name: _alike(*sides) for name, sides in pairs.items()}
    cell_rows: list[Row] = []
    whole_rows: list[Row] = []
    for measure in (*MEASURES, GAP):
        cells, whole = _measure(measure, pairs, relevant)
        cell_rows += cells
        whole_rows += whole
    # There are two families of tests, because both use the same data. The number of cells must not decide whether a
    # change of the whole run is found. Each family keeps its false discoveries at 5 %. Together they call equal runs
    # worse in at most 5 of 100 comparisons (`make prove`): they mostly find the same changes, and half of these are
    # "better".
    cell_rows = _adjusted(cell_rows, relevant)
    whole_rows = _adjusted(whole_rows, relevant)
    if limit is not None:
        whole_rows.append(limit)
    if unequal:
        cell_rows, whole_rows = ([_open(row, unequal) for row in rows] for rows in (cell_rows, whole_rows))
    correctness = [_correctness(name, base, new) for name, (base, new) in pairs.items()]
    rows = (*whole_rows, *correctness, *cell_rows)
    return Comparison(
        rows=rows,
        relevant=relevant,
        result=_overall(whole_rows, correctness, cell_rows, measured=_was_to_measure(pairs)),
    )


def _was_to_measure(pairs: Pairs) -> bool:
    return any(cell.kind != "chaos" for base, _ in pairs.values() for cell in base)


def search_row(base: SearchRecord, new: SearchRecord, relevant: float) -> Row:
    """The limits of two searches (search.json), which half of the tries keep: their intervals are known, and a change
    shows there first. Each interval is of one search: the two share no noise."""
    errors = [math.log(side.high_per_s / side.low_per_s) / (2 * 1.96) for side in (base, new)]
    change = interval(math.log(new.half_per_s / base.half_per_s), math.hypot(*errors), math.inf)
    margin = math.log1p(relevant)
    result, reason = UNDECIDED, "the intervals of the two limits are too wide; lower search.tolerance"
    outside = [name for name, side in (("BASE", base), ("NEW", new)) if side.ended_at is not SearchEnd.NONE]
    if base.contract != new.contract:
        reason = f"the contracts differ: BASE {to_json(base.contract)}, NEW {to_json(new.contract)}"
    elif outside:
        reason = f"the limit of {' and '.join(outside)} lies outside of what was searched"
    elif change.excludes_zero and abs(change.value) >= margin:
        result, reason = (BETTER if change.value > 0 else WORSE), "the interval excludes no change"
    elif -margin <= change.low and change.high <= margin:
        result, reason = SAME, f"the interval lies within ±{relevant:.0%}"
    return Row(
        cell=WHOLE_RUN, title="rate search", measure=SEARCHED.name, unit=SEARCHED.unit,
        base=base.half_per_s, new=new.half_per_s, change=change, repetitions=(len(base.probes), len(new.probes)),
        p=None, q=None, result=result, reason=reason,
    )  # fmt: skip


def _overall(whole: Sequence[Row], correctness: Sequence[Row], cells: Sequence[Row], *, measured: bool) -> Change:
    """One worse row makes the result worse. If the whole run is judged by the same measure, single undecided cells do
    not matter, except cells that have no figure at all on one side."""
    everything = [*whole, *correctness, *cells]
    if any(row.result == WORSE for row in everything):
        return WORSE
    one_sided = [row for row in cells if (row.base is None) != (row.new is None)]
    # For chaos cells only correctness decides. If a run should have measured a figure and has none, it decides nothing.
    judged_whole = {row.measure for row in whole}
    figures = [*whole, *(row for row in cells if row.measure not in judged_whole), *one_sided]
    deciding = [*figures, *correctness] if figures or not measured else []
    if not deciding or any(row.result == UNDECIDED for row in deciding):
        return UNDECIDED
    return BETTER if any(row.result == BETTER for row in everything) else SAME


def _figures(measure: Measure, cells: Sequence[Measurement]) -> list[tuple[Measurement, float]]:
    """The cells that have the figure, each with its value. Only chaos cells have gaps, because a gap needs a fault."""
    found = []
    for cell in cells:
        value = cell.values.get(measure.name)
        if measure is GAP:
            value = cell.gap_ms if cell.kind == "chaos" else None
        if value is not None and value > 0:
            found.append((cell, value))
    return found


def _values(measure: Measure, cells: Sequence[Measurement]) -> FloatArray:
    """Logarithms: one for each cell, or one for each cluster if the cells ran on several clusters."""
    by_cluster: dict[int, list[float]] = {}
    for cell, value in _figures(measure, cells):
        by_cluster.setdefault(cell.fork, []).append(math.log(value))
    if len({cell.fork for cell in cells}) > 1:
        return np.array([np.mean(own) for own in by_cluster.values()], dtype=np.float64)
    return np.array([value for own in by_cluster.values() for value in own], dtype=np.float64)


def _measure(measure: Measure, pairs: Pairs, relevant: float) -> tuple[list[Row], list[Row]]:
    """Rows of the cells and of the whole run, not judged yet."""
    sides = {name: (_values(measure, base), _values(measure, new)) for name, (base, new) in pairs.items()}
    told = [name for name, (base, new) in sides.items() if len(base) or len(new)]
    usable = [name for name in told if len(sides[name][0]) and len(sides[name][1])]
    estimates = dict(zip(usable, _estimates([sides[name] for name in usable]), strict=True))
    rows = []
    for name in told:
        base, new = sides[name]
        change = estimates.get(name)
        rows.append(
            Row(
                cell=name,
                title=pairs[name][0][0].title,
                measure=measure.name,
                unit=measure.unit,
                base=_level(base, measure),
                new=_level(new, measure),
                change=change,
                repetitions=(len(base), len(new)),
                p=None if change is None else _p_value(change),
                q=None,
                result=UNDECIDED,
                reason=_why_open(measure, *pairs[name], len(base), len(new), change, relevant),
                of_clocks=_of_clocks(measure, pairs[name]),
            )
        )
    if len(usable) < _CELLS_MIN:
        return rows, []
    return rows, [_whole(measure, {name: pairs[name] for name in usable}, estimates)]


def _of_clocks(measure: Measure, sides: Sequence[Sequence[Measurement]]) -> float:
    """A logarithm: how much the change of gaps can be wrong. A gap between acknowledgements on two load hosts can be
    wrong by the bound of their clocks, in each repetition in the same direction."""
    if measure is not GAP:
        return 0.0
    return sum(
        max(
            (-math.log1p(-min((cell.gap_clock_error_ms or 0.0) / gap_ms, _ERROR_MAX)) for cell, gap_ms in found),
            default=0.0,
        )
        for found in (_figures(measure, side) for side in sides)
    )


def _p_value(change: Estimate) -> float | None:
    """The two-sided p-value of "no change"; None if the uncertainty of the change is unknown."""
    return 2 * (1 - t_cdf(abs(change.value) / change.standard_error, change.df)) if change.is_bounded else None


def _level(values: FloatArray, measure: Measure) -> float | None:
    return math.exp(float(values.mean())) * measure.scale if len(values) else None


def _why_open(
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
    if change is not None and change.is_bounded:
        scatter = change.standard_error / math.sqrt(1 / n_base + 1 / n_new)
        needed = repetitions_for(math.log1p(relevant), scatter**2, groups=2)
        return f"{TOO_NOISY}; {needed or 'more than 10,000'} repetitions a side would show {relevant:.0%}"
    return ""


def _estimates(sides: Sequence[tuple[FloatArray, FloatArray]]) -> list[Estimate]:
    """Differences. The variance of each cell is shrunk towards that of all cells. If a cell has too few repetitions to
    be judged alone, its difference has no bounds."""
    if not sides:
        return []
    dfs = np.array([max(len(base) + len(new) - 2, 0) for base, new in sides], dtype=np.float64)
    squares = [((base - base.mean()) ** 2).sum() + ((new - new.mean()) ** 2).sum() for base, new in sides]
    moderated = moderate(np.array(squares) / np.maximum(dfs, 1.0), dfs)
    result: list[Estimate] = []
    for place, (base, new) in enumerate(sides):
        value = float(new.mean() - base.mean())
        if min(len(base), len(new)) < REPETITIONS_MIN:
            result.append(unbounded(value))
            continue
        error = math.sqrt(float(moderated.variances[place]) * (1 / len(base) + 1 / len(new)))
        result.append(interval(value, max(error, _ROUNDING), float(moderated.dfs[place])))
    return result


def _whole(measure: Measure, pairs: Pairs, estimates: Mapping[str, Estimate]) -> Row:
    """The change over all cells: Student's t over the levels of the runs' blocks. All cells of a block are shifted
    together, so counting by cells would count one random shift once for each cell. If blocks cannot be separated, or if
    there is only one, the row stays undecided without p and interval."""
    runs = [[cell for pair in pairs.values() for cell in pair[side]] for side in (0, 1)]
    blocks = blocks_of(runs)
    base, new = (block_levels(_figures(measure, run), blocks) for run in runs)
    row = Row(
        cell=WHOLE_RUN, title=f"{WHOLE_RUN}, {len(pairs)} cells", measure=measure.name, unit=measure.unit, base=None,
        new=None, change=unbounded(float(np.mean([estimates[name].value for name in pairs]))),
        repetitions=(base.count, new.count), p=None, q=None, result=UNDECIDED, reason="",
        of_clocks=max(_of_clocks(measure, pair) for pair in pairs.values()),
    )  # fmt: skip
    unknown = [f"{name} {side.unknown}" for name, side in (("BASE", base), ("NEW", new)) if side.unknown]
    if unknown:
        return replace(row, reason="; ".join(unknown))
    df = base.count + new.count - 2
    squares = sum(float(((side.levels - side.levels.mean()) ** 2).sum()) for side in (base, new))
    error = max(math.sqrt(squares / df * (1 / base.count + 1 / new.count)), _ROUNDING)
    change = interval(float(new.levels.mean() - base.levels.mean()), error, df)
    reason = f"{base.count} and {new.count} {blocks.name} scatter too much"
    return replace(row, change=change, p=_p_value(change), reason=reason)


def _adjusted(rows: Sequence[Row], relevant: float) -> list[Row]:
    """Controls the family's false discoveries, widens its intervals to agree with that, and judges each row."""
    tested = [row for row in rows if row.p is not None]
    adjusted = benjamini_hochberg(np.array([row.p for row in tested], dtype=np.float64))
    comparisons = comparisons_of(adjusted)
    q_of = {id(row): float(q) for row, q in zip(tested, adjusted, strict=True)}
    return [_judged(row, q_of[id(row)], comparisons, relevant) if id(row) in q_of else row for row in rows]


def _judged(row: Row, q: float, comparisons: float, relevant: float) -> Row:
    assert row.change is not None, "a row was tested"
    drawn = interval(row.change.value, row.change.standard_error, row.change.df, comparisons)
    change = replace(drawn, low=drawn.low - row.of_clocks, high=drawn.high + row.of_clocks)
    row = replace(row, change=change, q=q)
    margin = math.log1p(relevant)
    more_is_better = next((m.more_is_better for m in (*MEASURES, GAP) if m.name == row.measure), False)
    if -margin <= change.low and change.high <= margin:
        return replace(row, result=SAME, reason=f"the interval lies within ±{relevant:.0%}")
    if not change.excludes_zero:
        return replace(row, reason="the clocks of the load hosts leave it open") if drawn.excludes_zero else row
    if abs(change.value) < margin:
        return replace(row, reason=f"there is a difference, but whether it reaches {relevant:.0%} is open")
    result = BETTER if (change.value > 0) == more_is_better else WORSE
    return replace(row, result=result, reason="the interval excludes no change")


def _open(row: Row, unequal: Sequence[str]) -> Row:
    """If the host was busier in one of the runs, that looks like a change, and it can hide a change."""
    if row.result == UNDECIDED:
        return row
    return replace(row, result=UNDECIDED, reason=f"the hosts were not alike: {'; '.join(unequal)}")


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
