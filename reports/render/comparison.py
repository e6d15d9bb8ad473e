"""A comparison as text, JSON, CSV and one offline page, written into NEW's results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reports.figures.compare.comparison import CORRECTNESS, UNDECIDED, Comparison, Row
from reports.figures.compare.folding import fold
from reports.figures.compare.likeness import Likeness
from reports.figures.sweep.recommend import change as change_text
from reports.figures.sweep.recommend import significant
from reports.read.cell import Json
from reports.render.files import replace_text, write_csv
from reports.render.page import environment, vega
from reports.render.sweep_charts import specifications

SCHEMA_VERSION: Final = 1
_SIGNS: Final = {"better": "▲", "worse": "▼", "same": "=", UNDECIDED: "?"}
_JUDGEMENT: Final = {"better": "better", "worse": "worse"}
HEADER: Final = (
    "cell", "measure", "unit", "base", "new", "ratio", "low", "high", "repetitions_base", "repetitions_new", "p", "q",
    "result", "reason",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """All that is shown of two runs."""

    base: str
    new: str
    comparison: Comparison
    likeness: Likeness
    forced: bool
    only_base: tuple[str, ...]
    only_new: tuple[str, ...]
    analyses: tuple[str, str] = ("", "")  # ids of those that wrote the figures of BASE and of NEW


def as_json(compared: Compared) -> Json:
    comparison = compared.comparison
    return {
        "schema_version": SCHEMA_VERSION,
        "base": compared.base,
        "new": compared.new,
        "analyses": dict(zip(("base", "new"), compared.analyses, strict=True)),
        "result": comparison.result,
        "exit_code": comparison.exit_code,
        "relevant": comparison.relevant,
        "forced": compared.forced,
        "unlike": list(compared.likeness.unlike),
        "differs": list(compared.likeness.differs),
        "warnings": list(compared.likeness.warnings),
        "only_base": list(compared.only_base),
        "only_new": list(compared.only_new),
        "rows": [dict(zip(HEADER, _cells(row), strict=True)) for row in comparison.rows],
    }


def _cells(row: Row) -> list[object]:
    change = row.change
    bounded = change is not None and change.standard_error != float("inf")
    ratio = round(change.ratio[0], 5) if change is not None else None
    low, high = (round(x, 5) for x in change.ratio[1:]) if change is not None and bounded else (None, None)
    levels = [None if level is None else float(f"{level:.6g}") for level in (row.base, row.new)]
    return [
        *(row.cell, row.measure, row.unit, *levels, ratio, low, high, *row.repetitions),
        *(row.p, row.q, row.result, row.reason),
    ]


def text(compared: Compared) -> list[str]:
    """What `harness compare` prints: what differs, the table, the result."""
    likeness = compared.likeness
    lines = [f"BASE {compared.base}", f"NEW  {compared.new}"]
    lines += [f"  differs: {line}" for line in likeness.differs] or [
        "  nothing differs that is recorded: an A/A comparison"
    ]
    lines += [f"  unlike, compared by force: {line}" for line in likeness.unlike]
    lines += [f"  mind: {line}" for line in likeness.warnings]
    for name, side in ((compared.only_base, "BASE"), (compared.only_new, "NEW")):
        if name:
            lines.append(f"  only in {side}: {', '.join(name)}")
    folded = fold(compared.comparison.rows)
    table = [("cell", "figure", "BASE", "NEW", "change", "n", "result", "why")]
    table += [
        (
            row.cell,
            row.measure,
            _level(row.base, row.unit),
            _level(row.new, row.unit),
            _change(row),
            f"{row.repetitions[0]}+{row.repetitions[1]}",
            f"{_SIGNS[row.result]} {row.result}",
            row.reason,
        )
        for row in folded.shown
    ]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    lines += ["  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip() for line in table]
    if folded.line:
        lines.append(f"{_SIGNS[UNDECIDED]} {folded.line}")
    return [*lines, f"result: {compared.comparison.result}"]


def _level(level: float | None, unit: str) -> str:
    return "-" if level is None else f"{significant(level)} {unit}"


def _change(row: Row) -> str:
    if row.change is None:
        return "-"
    if row.change.standard_error == float("inf"):
        return f"{(row.change.ratio[0] - 1) * 100:+.1f} %"
    return change_text(row.change)


def write(directory: Path, compared: Compared) -> Path:
    """JSON, CSV and the page; returns the page's path."""
    results = directory / "results"
    results.mkdir(parents=True, exist_ok=True)
    name = f"compare-{compared.base}"
    replace_text(results / f"{name}.json", json.dumps(as_json(compared), indent=1, allow_nan=False) + "\n")
    write_csv(results / f"{name}.csv", HEADER, (_cells(row) for row in compared.comparison.rows))
    page = results / f"{name}.html"
    replace_text(page, render(compared))
    return page


def render(compared: Compared) -> str:
    rows = compared.comparison.rows
    folded = fold(rows)
    measures = list(dict.fromkeys(row.measure for row in rows if row.measure != CORRECTNESS))
    charts = {name: _chart([row for row in rows if row.measure == name]) for name in measures}
    charts = {name: chart for name, chart in charts.items() if chart["data"]["effects"]["label"]}
    low, high = _limits(rows)
    payload = {"specs": specifications(ratio_low=low, ratio_high=high), "charts": charts}
    return (
        environment()
        .get_template("compare.html.j2")
        .render(
            compared=compared,
            charts=list(charts),
            rows=[_table_row(row) for row in folded.shown],
            folded=folded.line,
            folded_rows=[_table_row(row) for row in folded.rows],
            signs=_SIGNS,
            payload=payload,
            vega=vega(),
        )
    )


def _table_row(row: Row) -> Json:
    return {**dict(zip(HEADER, _cells(row), strict=True)), "title": row.title, "text": _change(row)}


def _limits(rows: Sequence[Row]) -> tuple[float, float]:
    ratios = [row.change.ratio for row in rows if row.change is not None and row.change.is_bounded]
    low = min([0.8, *(max(lower, value / 3) for value, lower, _ in ratios)])
    high = max([1.25, *(min(upper, value * 3) for value, _, upper in ratios)])
    return low * 0.95, high * 1.05


def _chart(rows: Sequence[Row]) -> Json:
    """Columns of the effect chart: NEW over BASE. A change without an interval is in the table alone."""
    shown: list[Mapping[str, object]] = []
    for row in rows:
        if row.change is None or not row.change.is_bounded:
            continue
        ratio, low, high = row.change.ratio
        shown.append(
            {
                "label": row.cell,
                "reference": "BASE",
                "ratio": round(ratio, 4),
                "low": round(low, 4),
                "high": round(high, 4),
                "judgement": _JUDGEMENT.get(row.result, "not clear"),
                "text": f"{_change(row)}: {row.result}",
            }
        )
    names = ("label", "reference", "ratio", "low", "high", "judgement", "text")
    columns = {name: [row[name] for row in shown] for name in names}
    return {"spec": "effects", "data": {"effects": columns, "one": {"ratio": [1]}}}
