"""The CSV tables below results/: the data of every chart and table of the page."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pandas as pd

from reports.figures.cell import CellFigures
from reports.figures.figures import Figures
from reports.figures.generator import CERTIFICATE_COLUMNS, COLUMNS, GeneratorFigures
from reports.figures.search import SearchFigures
from reports.figures.stages import LEVELS
from reports.figures.sweep.tables import Table
from reports.judge.catalogue import IN_CSV
from reports.read.model import QUANTILES, Latency
from reports.render.csv_columns import SETTING_PREFIX, written_name
from reports.render.files import write_csv
from reports.render.plain import csv_cell
from reports.render.spectra import write_spectra

READERS: Final = (
    *("cell_id", "reader", "consumers", "settings"),
    *(f"end_to_end_{name}_us" for name, _ in QUANTILES),
    *("end_to_end_p99_us_low", "end_to_end_p99_us_high", "max_us", "n", "end_to_end_answered_share"),
)
_CURVES: Final = ("cell_id", "kind", "quantile", "latency_us", "count", "inverse", "n")
_SETS: Final = ("cell_id", "kind", "part", "producer", "incarnation", "first_seq", "last_seq")
STAGES: Final = (
    "cell_id",
    "stage",
    "n",
    *(level.column for level in LEVELS),
    "max_us",
    "negative",
    "failed",
    "unknown",
    "clock_error_us",
)


def write_tables(results: Path, figures: Figures) -> None:
    """Into the directory `results`."""
    cells = figures.cells
    _write_slots(results / "time.csv", figures.slots)
    write_csv(results / "latency_curves.csv", _CURVES, _curve_rows(cells))
    write_spectra(results, cells)
    write_csv(results / "sets.csv", _SETS, _set_rows(cells))
    write_csv(results / "stages.csv", STAGES, stage_rows(cells))
    for name, (header, rows) in {"cells.csv": _cell_table(cells), **_tables(figures)}.items():
        write_csv(results / name, [written_name(name, column) for column in header], rows)


def _tables(figures: Figures) -> Mapping[str, Table]:
    """File below results/ -> header and rows; what no figure is behind is left out."""
    found = {
        "generator.csv": generator_table(figures.generator),
        "certificates.csv": certificate_table(figures.generator),
    }
    by_knob: list[tuple[str, Any]] = [(knob, row) for knob, rows in figures.knobs.items() for row in rows]
    if any(cell.readers for cell in figures.cells):
        found["readers.csv"] = _reader_table(figures.cells)
    if figures.price.points:
        found["price.csv"] = (_names(figures.price.points[0]), [_values(point) for point in figures.price.points])
    if by_knob:
        found["knobs.csv"] = (["knob", *_names(by_knob[0][1])], [[knob, *_values(row)] for knob, row in by_knob])
    return {**found, **search_tables(figures.search), **(figures.sweep.tables if figures.sweep else {})}


def _names(row: Any) -> list[str]:
    return [one.name for one in fields(row)]


def _values(row: Any) -> list[object]:
    return [getattr(row, one.name) for one in fields(row)]


def _reader_table(cells: Sequence[CellFigures]) -> Table:
    return [*READERS], [
        [
            *(cell.id, row.name, row.consumers, row.settings),
            *_quantiles(row.latency),
            *(row.latency.p99_interval_us or (None, None)),
            *(row.latency.max_us, row.latency.n, _share(row.latency)),
        ]
        for cell in cells
        for row in cell.readers
    ]


def _cell_table(cells: Sequence[CellFigures]) -> Table:
    """The table of cells. It has a column for each setting of any cell, so it can be grouped without another file."""
    settings = sorted({name for cell in cells for name in cell.plan.all_settings})
    rows = [[*cell_row(cell), *(cell.plan.all_settings.get(name) for name in settings)] for cell in cells]
    return [*(figure.name for figure in IN_CSV), *(f"{SETTING_PREFIX}{name}" for name in settings)], rows


def cell_row(cell: CellFigures) -> list[object]:
    """`inf` for a percentile that is not reached: pandas, R, DuckDB and Spark read that as infinity."""
    return [figure.filed(cell.source) for figure in IN_CSV]


def _quantiles(latency: Latency) -> list[float | None]:
    return [latency.us_of(name) for name, _ in QUANTILES]


def _share(latency: Latency) -> float | None:
    return None if latency.answered_share is None else round(latency.answered_share, 6)


def _write_slots(path: Path, slots: pd.DataFrame) -> None:
    if slots.empty:
        return
    temporary = path.with_name(f".{path.name}.tmp")
    slots.map(csv_cell).to_csv(temporary, index=False)
    os.replace(temporary, path)


def _curve_rows(cells: Sequence[CellFigures]) -> Iterable[Sequence[object]]:
    for cell in cells:
        for kind, latency in cell.told_latency.items():
            for quantile, value, count in latency.spectrum:
                yield cell.id, kind, round(quantile, 12), value, count, round(1 / (1 - quantile), 4), latency.n
            if latency.max_us is not None:
                place = latency.quantile_of_maximum
                inverse = math.inf if place >= 1 else round(1 / (1 - place), 4)
                yield cell.id, kind, place, round(latency.max_us, 1), latency.n, inverse, latency.n


def _set_rows(cells: Sequence[CellFigures]) -> Iterable[Sequence[object]]:
    return (
        (cell.id, kind, part, r.producer, r.incarnation, r.first_seq, r.last_seq)
        for cell in cells
        for kind, damage in cell.damage.items()
        for part in ("both", "only_predicted", "only_observed")
        for r in getattr(damage.comparison, part).ranges
    )


def stage_rows(cells: Sequence[CellFigures]) -> Iterable[Sequence[object]]:
    """Sends without an end are counted beside: they are in no percentile."""
    return (
        (
            cell.id,
            row.stage,
            row.n,
            *row.us,
            row.negative,
            cell.stages.failed,
            cell.stages.unknown,
            row.clock_error_us,
        )
        for cell in cells
        for row in cell.stages.rows
    )


def generator_table(generator: GeneratorFigures) -> Table:
    names = [column.name for column in COLUMNS]
    return ["cell_id", *names, "mark"], [
        [row.cell_id, *(row.values[name] for name in names), row.mark] for row in generator.rows
    ]


def certificate_table(generator: GeneratorFigures) -> Table:
    """What the generator reached by itself."""
    names = [column.name for column in CERTIFICATE_COLUMNS]
    return ["id", "client", "shape", "settings", *names], [
        [one.id, one.client, one.shape, one.settings, *(one.values[name] for name in names)]
        for one in generator.certificates
    ]


def search_tables(search: SearchFigures | None) -> dict[str, Table]:
    if search is None:
        return {}
    return {
        "search.csv": (
            ["try", "rate", "kept", "low", "high", "result", "why"],
            [[one.number, one.rate, one.kept, one.low, one.high, one.result, one.why] for one in search.trace],
        ),
        "load_curve.csv": (
            ["rate", "percent", "repetition", "series", "ms"],
            [[one.rate, one.percent, one.repetition, one.series, one.ms] for one in search.curve],
        ),
    }
