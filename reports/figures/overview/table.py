"""The table of all cells: which columns have different values, and which rows are folded at first. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reports.figures.cell import CellFigures
from reports.figures.sweep.number_words import significant
from reports.read.model import PREDICTED_KINDS

COMPRESSION_TOLD: Final = 0.02  # a ratio this near to 1 is none
FOLDED_FROM: Final = 5  # with fewer cells of a sweep, folding hides more than it spares


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """`is_shown`: whether the column is there before a reader chooses."""

    name: str
    title: str
    what: str
    is_shown: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TableGroup:
    """Rows that belong together, folded or not."""

    name: str
    title: str
    cells: tuple[CellFigures, ...]
    is_folded: bool
    summary: str  # for who does not unfold it


@dataclass(frozen=True, slots=True, kw_only=True)
class CellTable:
    columns: tuple[TableColumn, ...]
    groups: tuple[TableGroup, ...]
    has_ceilings: bool

    def sort_key(self, cell: CellFigures, column: str) -> float | str:
        """Empty where the cell has nothing: such rows stand last."""
        value = _COLUMNS[column].read(cell)
        if value is None:
            return ""
        return value if math.isfinite(value) else "Infinity"  # as the page's script reads it


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    what: str
    read: Callable[[CellFigures], float | None]  # what it shows of a cell; None: nothing


def _quantile(name: str) -> Callable[[CellFigures], float | None]:
    return lambda cell: None if _is_ceiling(cell) else cell.latency["corrected"].us_of(name)


def _is_ceiling(cell: CellFigures) -> bool:
    """Whether the cell is a ceiling. Its latency is not shown, because it is the length of a queue that the load
    made."""
    return cell.kind == "ceiling"


def _damage(kind: str) -> Callable[[CellFigures], float | None]:
    return lambda cell: cell.damage[kind].observed


_LATENCY: Final = "latency in ms from the intended time"
_COLUMNS: Final[Mapping[str, _Column]] = {
    "rate": _Column("records/s", "acknowledged in the measured window", lambda cell: cell.throughput_records_per_s),
    "capacity": _Column(
        "capacity", "records/s at the ceiling, in a cell of its own", lambda cell: cell.capacity_records_per_s
    ),
    "megabytes": _Column("MB/s", "10^6 bytes of records, before compression", lambda cell: cell.volume.mb_per_s),
    "cpu_per_mb": _Column(
        "CPU ms/MB", "CPU of all brokers for 10^6 bytes of records", lambda cell: cell.volume.broker_cpu_ms_per_mb
    ),
    "of_capacity": _Column(
        "% of cap.", "the rate that was asked, of the capacity of its setting", lambda cell: cell.volume.capacity_share
    ),
    "p50": _Column("p50", _LATENCY, _quantile("p50")),
    "p99": _Column("p99", _LATENCY, _quantile("p99")),
    "p999": _Column("p99.9", _LATENCY, _quantile("p999")),
    "max": _Column("max", _LATENCY, lambda cell: None if _is_ceiling(cell) else cell.latency["corrected"].max_us),
    "lost": _Column("lost", "acknowledged and not in the log", _damage("lost")),
    "duplicated": _Column("duplicated", "in the log more than once", _damage("duplicated")),
    "reordered": _Column("reordered", "in the log after what was sent later", _damage("reordered")),
    "unknown": _Column("unknown", "got no answer", lambda cell: cell.counts.unknown_total),
    "gap": _Column("gap s", "longest time without an acknowledgement", lambda cell: cell.gap_s),
    "batch": _Column("rec/batch", "records per batch", lambda cell: cell.records_per_batch),
    "compression": _Column("compr.", "bytes before over bytes after", lambda cell: cell.compression_ratio),
    "n": _Column("n", "latencies measured", lambda cell: cell.latency["corrected"].n),
}
_GROUPS: Final = {
    "chaos": "Cells under faults",
    "search": "Tries of the rate search",
    "sweep": "Cells of the sweep",
    "ceiling": "Ceilings of the sweep",
}
_ALWAYS: Final = ("rate", *PREDICTED_KINDS)  # that there is no damage is an answer
_CHOSEN: Final = ("n", "megabytes", "cpu_per_mb")  # only if a reader asks for it


def cell_table(cells: Sequence[CellFigures]) -> CellTable:
    own = {kind: tuple(cell for cell in cells if cell.kind == kind) for kind in _GROUPS}
    several = sum(bool(group) for group in own.values()) > 1
    return CellTable(
        columns=tuple(_column(name, cells) for name in _COLUMNS),
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


def _column(name: str, cells: Sequence[CellFigures]) -> TableColumn:
    own = _COLUMNS[name]
    is_shown = name in _ALWAYS or (name not in _CHOSEN and any(_says_something(name, own.read(cell)) for cell in cells))
    return TableColumn(name=name, title=own.title, what=own.what, is_shown=is_shown)


def _says_something(name: str, value: float | None) -> bool:
    if name == "compression":
        return value is not None and abs(value - 1) > COMPRESSION_TOLD
    return bool(value)


def _summary(cells: Sequence[CellFigures]) -> str:
    """Ranges over the cells: `2,990 to 3,010 records/s, p99 5.1 to 63 ms`."""
    rates = [f"{rate:,.0f}" for rate in sorted(cell.throughput_records_per_s for cell in cells)]
    p99s = sorted(us / 1000 for cell in cells if (us := _COLUMNS["p99"].read(cell)) is not None)
    parts = [f"{_range(rates[0], rates[-1])} records/s"]
    capacities = sorted(cell.capacity_records_per_s for cell in cells if cell.capacity_records_per_s)
    if capacities and not _is_ceiling(cells[0]):
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
