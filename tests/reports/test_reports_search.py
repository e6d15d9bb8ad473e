"""The section of a rate search says the rate with its uncertainty, what limited it, and never more than was found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.run.report.reporting import reading_lines
from reports.figures.figures import figures_of
from reports.figures.search import search_figures, sentence
from reports.read.run_files import read_run
from reports.render.chart_payload import charts_of
from reports.render.csv_tables import search_tables
from reports.render.markdown import summary
from reports.render.plain import markdown
from reports.render.results import write_results
from reports.render.verdicts_json import verdicts_record
from runlog.records.documents import search_of
from runlog.records.search import SearchRecord
from tests.reports.cells import make_run
from tests.reports.sweep_facts import cell_facts, judged

TRY = {
    "cell_id": "search-probe-1", "rate_per_s": 5000.0, "passed": False, "broken": ["p99"],
    "reasons": ["p99 900 ms, allowed 50 ms"], "p99_ms": 900.0, "acked_per_s": 4000.0, "backlog_growth_share": 0.2,
    "kept_per_s": 3800.0, "estimate_per_s": 4200.0, "low_per_s": 3900.0, "high_per_s": 4500.0,
}  # fmt: skip
DOCUMENT: dict[str, Any] = {
    "schema_version": 2, "contract": {"p99_ms": 50.0, "backlog_growth_share": 0.02}, "searched_per_s": [500, 9000],
    "rate_per_s": 3800.0, "half_per_s": 4218.7, "low_per_s": 3912.2, "high_per_s": 4511.1, "ended_at": "",
    "limited_by": ["p99", "backlog"], "limit_reasons": ["p99 900 ms, allowed 50 ms"],
    "probes": [TRY, {**TRY, "passed": True, "reasons": []}],
    "load_curve": [
        {"fraction": 0.5, "repetition": 1, "cell_id": "search-load-50-r1", "rate_per_s": 2109.0},
        {"fraction": 1.0, "repetition": 1, "cell_id": "search-load-100-r1", "rate_per_s": 3800.0, "passed": True},
        {"fraction": 1.1, "repetition": 1, "cell_id": "search-load-110-r1", "rate_per_s": 4180.0, "passed": False},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "Highest sustained rate 3,800 records/s: it was tried and kept, and one more try keeps it with 95 %"),
        ({}, "Half of the tries keep 4,220 (95 %: 3,910 to 4,510). 2 tries"),
        ({}, "Of the later cells, 1 of 1 up to this rate and 0 of 1 above it kept the contract."),
        ({"rate_per_s": None}, "No rate was found that is kept with 95 % probability. Half of the tries keep 4,220"),
        ({}, "Limited by latency."),
        ({"limited_by": ["generator"]}, "Limited by the load generator itself: the cluster carries more."),
        ({"ended_at": "high"}, "Even 9,000 records/s are kept with 95 % probability"),
        ({"ended_at": "low"}, "Not even 500 records/s are kept with 95 % probability"),
    ],
)
def test_the_sentence_says_what_was_found(changes: dict[str, Any], text: str) -> None:
    assert text in sentence(found_of(**changes))


def test_the_terminal_and_the_summary_say_the_rate_that_was_found(tmp_path: Path) -> None:
    figures = figures_of(
        replace(make_run(directory=str(tmp_path)), search=found_of()), judged([cell_facts({}, p99_us=12_000)])
    )
    reading = verdicts_record(figures).reading
    assert reading.highest_rate == sentence(found_of())
    lines = reading_lines(reading)
    assert f"  {sentence(found_of())}" in lines[lines.index("highest rate:") :]
    assert f"## Highest rate\n\n{markdown(sentence(found_of()))}" in summary(figures)


def test_a_run_without_a_search_says_nothing_of_a_rate(tmp_path: Path) -> None:
    figures = figures_of(make_run(directory=str(tmp_path)), judged([cell_facts({}, p99_us=12_000)]))
    assert "highest rate:" not in reading_lines(verdicts_record(figures).reading)
    assert "Highest rate" not in summary(figures)


def test_the_load_curve_takes_its_latencies_from_the_analysed_cells(tmp_path: Path) -> None:
    items = judged([cell_facts({}, cell_id="search-load-50-r1", kind="search", p99_us=12_000)])
    found = search_figures(found_of(), items)
    assert [(point.series, point.ms) for point in found.curve] == [("p99", 12.0)]
    run = replace(make_run(directory=str(tmp_path)), search=found_of())
    figures, without = figures_of(run, items), figures_of(run, [])
    assert {name for name in charts_of(figures) if name.startswith("search")} == {"search-trace", "search-curve"}
    assert set(charts_of(without)) == {"search-trace"}
    write_results(figures, tmp_path)
    for name, (_, rows) in search_tables(found).items():
        assert len((tmp_path / "results" / name).read_text().splitlines()) == len(rows) + 1


def test_a_missing_or_foreign_file_gives_no_section(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"cells": []}')
    assert read_run(tmp_path).search is None
    for changes in (
        {"schema_version": 9},
        {"low_per_s": 0},
        {"half_per_s": 9_999},
        {"schema_version": 1},
        {"searched_per_s": [500]},
    ):
        (tmp_path / "search.json").write_text(json.dumps(DOCUMENT | changes))
        assert read_run(tmp_path).search is None, changes
    (tmp_path / "search.json").write_text(json.dumps(DOCUMENT))
    assert read_run(tmp_path).search == found_of()


def found_of(**changes: object) -> SearchRecord:
    found = search_of(DOCUMENT | changes)
    assert found is not None
    return found
