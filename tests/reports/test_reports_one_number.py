"""Every figure that a run's CSV, JSON, chart, page and sentence give is the same number."""

from __future__ import annotations

import csv
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reports.figures.figures import Figures, figures_of
from reports.figures.reading import reading_of
from reports.judge.catalogue import CATALOGUE, COLUMNS
from reports.judge.figure import Files, Kind
from reports.judge.judged import Judged
from reports.judge.verdict import judge
from reports.read.model import CellFacts, Latency
from reports.render.chart_payload import charts_of
from reports.render.markdown import summary
from reports.render.page import render
from reports.render.results import write_results
from reports.render.words import in_form
from tests.reports.cells import make_run
from tests.reports.overview_runs import faulty
from tests.reports.test_reports_capacity import two_windows
from tests.reports.test_reports_histogram import ANSWERED
from tests.reports.test_reports_histogram import summary as summarised

Row = dict[str, str]


def with_latencies(facts: CellFacts, place: int) -> CellFacts:
    """Whole latencies, each cell's its own. In every fourth one some records never came to the reader."""
    own = {
        kind: summarised([us * (place + 2) * (number + 1) for us in ANSWERED], unanswered)
        for number, (kind, unanswered) in enumerate(
            {"corrected": 0, "uncorrected": 0, "end_to_end": 700 if place % 4 == 0 else 0}.items()
        )
    }
    return replace(facts, latency={**facts.latency, **own, "schedule_lag": Latency(n=10, quantiles={"p99": 300.0})})


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Figures, Path]:
    cells = [with_latencies(facts, place) for place, facts in enumerate([*two_windows(), *faulty()])]
    run = make_run("numbers", manifest={"run_id": "numbers"}, cells=tuple(facts.cell for facts in cells))
    figures = figures_of(run, [Judged(facts=facts, verdict=judge(facts)) for facts in cells])
    directory = tmp_path_factory.mktemp("numbers")
    write_results(figures, directory)
    return figures, directory


def table(directory: Path, name: str) -> list[Row]:
    return list(csv.DictReader((directory / "results" / name).open()))


def shown_cells(page: str) -> dict[str, dict[str, str]]:
    """The table of all cells as a reader sees it: cell -> column -> text."""
    body = page[page.index('id="cell-table"') :]
    body = body[: body.index("</table>")]
    return {
        re.findall(r'href="#cell-([^"]+)"', row)[0]: {
            name: re.sub(r"<[^>]+>", " ", text).strip()
            for name, text in re.findall(r'data-col="([^"]+)"[^>]*>(.*?)</td>', row, re.DOTALL)
        }
        for row in re.findall(r"<tr data-verdict.*?</tr>", body, re.DOTALL)
    }


def value(text: str) -> float | None:
    return float(text) if text else None


@pytest.mark.thorough
def test_cells_csv_verdicts_json_and_the_table_of_the_page_agree(written: tuple[Figures, Path]) -> None:
    figures, directory = written
    rows = {row["cell_id"]: row for row in table(directory, "cells.csv")}
    document = json.loads((directory / "results" / "verdicts.json").read_text())
    told: dict[str, Any] = {cell["cell_id"]: cell for cell in document["cells"]}
    shown = shown_cells(render(figures))
    assert rows.keys() == told.keys() == shown.keys()
    for name, row in rows.items():
        own, page = told[name], shown[name]
        for figure in CATALOGUE:
            if figure.files is Files.BOTH and figure.kind is not Kind.TEXT:
                assert value(row[figure.name]) == own.get(figure.name), (name, figure.name)
        for figure in COLUMNS.values():
            in_csv, in_page = value(row[figure.name]), page[figure.name].split()[0]
            if figure.column.is_of_pace and row["kind"] == "ceiling":
                assert in_page == "–"
            elif figure.name != "gap_ms":  # in seconds there, with its clocks
                text = "–" if in_csv is None else "∞" if math.isinf(in_csv) else in_form(in_csv, figure.column)
                assert in_page == text.split()[0], (name, figure.name)
        for kind in ("corrected", "uncorrected", "end_to_end"):
            latency = own["latency_us"][kind]
            for level in ("p50", "p90", "p99", "p999"):
                in_csv = value(row[f"{kind}_{level}_us"])
                assert in_csv == (math.inf if level in latency["not_reached"] else latency[level]), (name, kind, level)


@pytest.mark.thorough
def test_curves_in_the_csv_the_spectra_and_the_charts_agree_with_the_percentiles(written: tuple[Figures, Path]) -> None:
    figures, directory = written
    cells = {row["cell_id"]: row for row in table(directory, "cells.csv")}
    curves: dict[tuple[str, str], dict[float, float]] = {}
    for row in table(directory, "latency_curves.csv"):
        curves.setdefault((row["cell_id"], row["kind"]), {})[float(row["quantile"])] = float(row["latency_us"])
    for cell in figures.cells:
        for kind, series in (("corrected", "corrected"), ("end_to_end", "end to end")):
            own = curves[cell.id, kind]
            p50, p90 = (float(cells[cell.id][f"{kind}_{level}_us"]) for level in ("p50", "p90"))
            assert own[0.5] == p50
            drawn = {point.percentile: point.ms for point in cell.curve if point.series == series}
            assert drawn[50.0] == round(p50 / 1000, 3)
            assert drawn[90.0] == round(p90 / 1000, 3)
            lines = (directory / "results" / "spectra" / f"{cell.id}.{kind}.hgrm").read_text().splitlines()
            rows = [line.split() for line in lines[2:] if not line.startswith("#")]
            assert [float(row[0]) for row in rows] == [round(us / 1000, 3) for us in own.values()]
        if cell.latency["end_to_end"].not_reached:
            assert cells[cell.id]["end_to_end_p99_us"] == "inf"
            assert max(curves[cell.id, "end_to_end"]) < 0.99


def test_price_knobs_and_surface_have_the_numbers_of_their_charts(written: tuple[Figures, Path]) -> None:
    figures, directory = written
    charts = charts_of(figures)
    price = table(directory, "price.csv")
    drawn = charts["price"].data["price"]
    assert [float(row["carried_records_per_s"]) for row in price] == drawn["rate"]
    assert [float(row["p99_ms"]) for row in price] == drawn["p99"]
    for knob, rows in figures.knobs.items():
        own = [row for row in table(directory, "knobs.csv") if row["knob"] == knob]
        found = charts[f"sweep-p99-{knob}"].data["sweep"]
        assert [float(row["p99_ms"]) for row in own] == found["p99"] == [row.p99 for row in rows]


def test_a_sentence_has_the_number_of_the_table(written: tuple[Figures, Path]) -> None:
    figures, directory = written
    text = summary(figures)
    rows = {row["cell_id"]: row for row in table(directory, "cells.csv")}
    for suite in (one for one in figures.suites.cells if one.cell.kind != "ceiling"):
        for line in text.splitlines():
            if line.startswith(f"| {suite.name} |"):
                row, columns = rows[suite.cell.id], [column.strip() for column in line.split("|")[1:-1]]
                assert columns[2] == f"{float(row['throughput_records_per_s']):,.0f}"
                assert (
                    columns[3] == f"{float(row['capacity_records_per_s']):,.0f}"
                    if row["capacity_records_per_s"]
                    else "–"
                )
                assert columns[4] == f"{float(row['corrected_p99_us']) / 1000:.1f}"
    sentences = " ".join(reading_of(figures).damage)
    for row in rows.values():
        assert not int(row["lost"] or 0) or f"{int(row['lost']):,}" in sentences
    shares = [float(row["capacity_share"]) for row in rows.values() if row["capacity_share"]]
    told = next(doubt.text for doubt in figures.overview.doubts if "of the capacity of each setting" in doubt.text)
    low, high = (int(found) for found in re.findall(r"(\d+) to (\d+)%", told)[0])
    assert (low, high) == pytest.approx((100 * min(shares), 100 * max(shares)), abs=2), "over repetitions, and of one"
