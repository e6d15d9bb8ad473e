"""A comparison as text, JSON, CSV and one offline page, written into NEW's results. Computes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Final

from reports.figures.compare.compared import ChangePoint, ComparisonFigures, ShownRow
from reports.read.cell import Json
from reports.render.files import replace_text, write_csv, write_record
from reports.render.page import environment, vega
from reports.render.sweep_charts import specifications
from runlog.records.comparison import Change, ComparedRow
from runlog.records.results import comparison_stem, results_directory

_SIGNS: Final[Mapping[str, str]] = {Change.BETTER: "▲", Change.WORSE: "▼", Change.SAME: "=", Change.UNDECIDED: "?"}
HEADER: Final = tuple(field.name for field in fields(ComparedRow))


def text(figures: ComparisonFigures) -> list[str]:
    """What `harness compare` prints: what differs, the table, the result."""
    record = figures.record
    lines = [f"BASE {record.base}", f"NEW  {record.new}"]
    found = [f"  differs: {line}" for line in record.differs]
    found += [f"  unlike, compared by force: {line}" for line in record.unlike]
    lines += found or ["  nothing differs that is recorded: an A/A comparison"]
    lines += [f"  mind: {line}" for line in record.warnings]
    for names, side in ((record.only_base, "BASE"), (record.only_new, "NEW")):
        if names:
            lines.append(f"  only in {side}: {', '.join(names)}")
    lines += _aligned([("cell", "figure", "BASE", "NEW", "change", "n", "result", "why"), *map(_words, figures.shown)])
    if figures.folded_line:
        lines.append(f"{_SIGNS[Change.UNDECIDED]} {figures.folded_line}")
    return [*lines, f"result: {record.result}"]


def _words(shown: ShownRow) -> tuple[str, ...]:
    row = shown.record
    repetitions = f"{row.repetitions_base}+{row.repetitions_new}"
    result = f"{_SIGNS[row.result]} {row.result}"
    return (row.cell, row.measure, shown.base, shown.new, shown.change, repetitions, result, row.reason)


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip() for line in table]


def write(run_dir: Path, figures: ComparisonFigures) -> Path:
    """JSON, CSV and the page; returns the page's path."""
    results = results_directory(run_dir)
    results.mkdir(parents=True, exist_ok=True)
    stem = comparison_stem(figures.record.base)
    write_record(results / f"{stem}.json", figures.record)
    write_csv(results / f"{stem}.csv", HEADER, ([getattr(row, name) for name in HEADER] for row in figures.record.rows))
    page = results / f"{stem}.html"
    replace_text(page, render(figures))
    return page


def render(figures: ComparisonFigures) -> str:
    """The page."""
    specs = specifications(ratio_low=figures.limits.low, ratio_high=figures.limits.high)
    payload = {"specs": specs, "charts": {name: _chart(points) for name, points in figures.charts.items()}}
    return (
        environment()
        .get_template("compare.html.j2")
        .render(
            record=figures.record,
            charts=list(figures.charts),
            shown=figures.shown,
            folded=figures.folded,
            folded_line=figures.folded_line,
            signs=_SIGNS,
            payload=payload,
            vega=vega(),
        )
    )


def _chart(points: Sequence[ChangePoint]) -> Json:
    columns = {field.name: [getattr(point, field.name) for point in points] for field in fields(ChangePoint)}
    columns["reference"] = ["BASE"] * len(points)
    return {"spec": "effects", "data": {"effects": columns, "one": {"ratio": [1]}}}
