"""The output of a comparison of two runs: the record, the rows that are shown, and the points of the charts.

Pure. `render/comparison.py` writes it as text, JSON, CSV and a page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reports.figures.compare.comparison import BETTER, CORRECTNESS, WORSE, Comparison, Row
from reports.figures.compare.folding import fold
from reports.figures.compare.likeness import Likeness
from reports.figures.sweep.figures import RatioLimits, ratio_limits
from reports.figures.sweep.number_words import change, significant
from runlog.records.comparison import COMPARISON_VERSION, ComparedAnalyses, ComparedRow, ComparisonRecord

_NO_CHANGE: Final = "not clear"
_DIGITS: Final = 5  # A ratio has so many.


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two runs, what was found of them, and how."""

    base: str
    new: str
    comparison: Comparison
    likeness: Likeness
    forced: bool
    only_base: tuple[str, ...]
    only_new: tuple[str, ...]
    analyses: tuple[str, str] = ("", "")  # ids of those that wrote the figures of BASE and of NEW


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRow:
    """A row of the tables of terminal and page; `-` stands for what is not known."""

    record: ComparedRow
    base: str  # with its unit
    new: str
    change: str  # with its interval


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePoint:
    """NEW over BASE of one cell, in the chart of one measure."""

    label: str
    ratio: float
    low: float
    high: float
    judgement: str  # better, worse, not clear
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonFigures:
    record: ComparisonRecord
    shown: tuple[ShownRow, ...]
    folded: tuple[ShownRow, ...]  # that the line stands for
    folded_line: str  # empty if there is none
    charts: Mapping[str, tuple[ChangePoint, ...]]  # The key is a measure that has a point.
    limits: RatioLimits


def comparison_figures(compared: Compared) -> ComparisonFigures:
    rows = compared.comparison.rows
    folded = fold(rows)
    measures = dict.fromkeys(row.measure for row in rows if row.measure != CORRECTNESS)
    charts = {name: _points([row for row in rows if row.measure == name]) for name in measures}
    return ComparisonFigures(
        record=_record(compared),
        shown=tuple(_shown(row) for row in folded.shown),
        folded=tuple(_shown(row) for row in folded.rows),
        folded_line=folded.line,
        charts={name: points for name, points in charts.items() if points},
        limits=ratio_limits([row.change for row in rows if row.change is not None and row.change.is_bounded]),
    )


def _record(compared: Compared) -> ComparisonRecord:
    comparison, likeness = compared.comparison, compared.likeness
    base, new = compared.analyses
    return ComparisonRecord(
        schema_version=COMPARISON_VERSION,
        base=compared.base,
        new=compared.new,
        analyses=ComparedAnalyses(base=base, new=new),
        result=comparison.result,
        exit_code=comparison.exit_code,
        relevant=comparison.relevant,
        forced=compared.forced,
        unlike=likeness.unlike,
        differs=likeness.differs,
        warnings=likeness.warnings,
        only_base=compared.only_base,
        only_new=compared.only_new,
        rows=tuple(_row(row) for row in comparison.rows),
    )


def _row(row: Row) -> ComparedRow:
    ratio, low, high = _ratio(row)
    return ComparedRow(
        cell=row.cell,
        measure=row.measure,
        unit=row.unit,
        base=_level(row.base),
        new=_level(row.new),
        ratio=ratio,
        low=low,
        high=high,
        repetitions_base=row.repetitions[0],
        repetitions_new=row.repetitions[1],
        p=row.p,
        q=row.q,
        result=row.result,
        reason=row.reason,
    )


def _ratio(row: Row) -> tuple[float | None, float | None, float | None]:
    """NEW over BASE with its interval; an interval without an end is not known."""
    if row.change is None:
        return None, None, None
    ratio, low, high = row.change.ratio
    if not row.change.is_bounded:
        return round(ratio, _DIGITS), None, None
    return round(ratio, _DIGITS), round(low, _DIGITS), round(high, _DIGITS)


def _level(level: float | None) -> float | None:
    return None if level is None else float(f"{level:.6g}")


def _shown(row: Row) -> ShownRow:
    return ShownRow(
        record=_row(row),
        base=_level_text(row.base, row.unit),
        new=_level_text(row.new, row.unit),
        change=_change_text(row),
    )


def _level_text(level: float | None, unit: str) -> str:
    return "-" if level is None else f"{significant(level)} {unit}"


def _change_text(row: Row) -> str:
    if row.change is None:
        return "-"
    if not row.change.is_bounded:
        return f"{(row.change.ratio[0] - 1) * 100:+.1f} %"
    return change(row.change)


def _points(rows: Sequence[Row]) -> tuple[ChangePoint, ...]:
    """A change without an interval is in the table alone."""
    points = []
    for row in rows:
        if row.change is None or not row.change.is_bounded:
            continue
        ratio, low, high = row.change.ratio
        points.append(
            ChangePoint(
                label=row.cell,
                ratio=round(ratio, 4),
                low=round(low, 4),
                high=round(high, 4),
                judgement=row.result.value if row.result in (BETTER, WORSE) else _NO_CHANGE,
                text=f"{_change_text(row)}: {row.result}",
            )
        )
    return tuple(points)
