"""The table of all cells: which columns have different values, and which rows are folded at first. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reports.figures.cell import CellFigures
from reports.figures.sweep.number_words import significant
from reports.judge.catalogue import COLUMNS
from reports.judge.figure import Column, Figure, Shown
from reports.read.model import PREDICTED_KINDS

FOLDED_FROM: Final = 5  # with fewer cells of a sweep, folding hides more than it spares


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """`is_shown`: whether the column is there before a reader chooses."""

    figure: Figure
    column: Column
    is_shown: bool

    @property
    def name(self) -> str:
        return self.figure.name

    def value(self, cell: CellFigures) -> float | None:
        return self.figure.in_table(cell.source)

    def sort_key(self, cell: CellFigures) -> float | str:
        """Empty where the cell has nothing: such rows stand last."""
        value = self.value(cell)
        if value is None:
            return ""
        return value if math.isfinite(value) else "Infinity"  # as the page's script reads it


@dataclass(frozen=True, slots=True, kw_only=True)
class TableGroup:
    """Rows that belong together, folded or not."""

    name: str
    title: str
    cells: tuple[CellFigures, ...]
    is_folded: bool
    summary: str  # Who does not unfold the table reads it.


@dataclass(frozen=True, slots=True, kw_only=True)
class CellTable:
    columns: tuple[TableColumn, ...]
    groups: tuple[TableGroup, ...]
    has_ceilings: bool


_GROUPS: Final = {
    "chaos": "Cells under faults",
    "search": "Tries of the rate search",
    "sweep": "Cells of the sweep",
    "ceiling": "Ceilings of the sweep",
}


def cell_table(cells: Sequence[CellFigures]) -> CellTable:
    own = {kind: tuple(cell for cell in cells if cell.kind == kind) for kind in _GROUPS}
    several = sum(bool(group) for group in own.values()) > 1
    return CellTable(
        columns=tuple(_column(figure, cells) for figure in COLUMNS.values()),
        has_ceilings=bool(own["ceiling"]),
        groups=tuple(
            TableGroup(
                name=kind,
                title=_GROUPS[kind],
                cells=group,
                summary=_summary(group),
                is_folded=several and kind != "chaos" and len(group) >= FOLDED_FROM,
            )
            for kind, group in own.items()
            if group
        ),
    )


def _column(figure: Figure, cells: Sequence[CellFigures]) -> TableColumn:
    column = figure.column
    assert column is not None
    is_shown = column.shown is Shown.ALWAYS or (
        column.shown is Shown.IF_TOLD and any(_says_something(column, figure.in_table(cell.source)) for cell in cells)
    )
    return TableColumn(figure=figure, column=column, is_shown=is_shown)


def _says_something(column: Column, value: float | None) -> bool:
    return value is not None and abs(value - column.nothing) > column.near


def _summary(cells: Sequence[CellFigures]) -> str:
    """Ranges over the cells: `2,990 to 3,010 records/s, p99 5.1 to 63 ms`."""
    rates = [f"{rate:,.0f}" for rate in sorted(cell.throughput_records_per_s for cell in cells)]
    p99s = sorted(us / 1000 for cell in cells if (us := COLUMNS["corrected_p99_us"].in_table(cell.source)) is not None)
    parts = [f"{_range(rates[0], rates[-1])} records/s"]
    capacities = sorted(cell.capacity_records_per_s for cell in cells if cell.capacity_records_per_s)
    if capacities and not cells[0].source.is_ceiling:
        parts.append(f"capacity {_range(significant(capacities[0]), significant(capacities[-1]))}")
    if p99s:
        reached = [p99 for p99 in p99s if math.isfinite(p99)]
        if reached:
            parts.append(f"p99 {_range(significant(reached[0]), significant(reached[-1]))} ms")
        if len(reached) < len(p99s):
            parts.append(f"p99 not reached in {len(p99s) - len(reached)}")
    parts += [
        f"{count:,} {kind}"
        for kind in PREDICTED_KINDS
        if (count := sum(cell.damage[kind].observed or 0 for cell in cells))
    ]
    return ", ".join(parts)


def _range(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"
