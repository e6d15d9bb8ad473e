"""Headers of all tables of results, from made figures; `python -m tests.reports.csv_headers` prints their page."""

from __future__ import annotations

import csv
import tempfile
from dataclasses import fields, replace
from pathlib import Path

from reports.figures.knobs import KnobRow
from reports.figures.search import LoadPoint, SearchFigures, Try
from reports.render import comparison
from reports.render.csv_columns import columns_page, written_name
from reports.render.csv_tables import READERS, write_tables
from tests.reports.test_reports_reading import swept

_TRY = Try(number=1, rate=1.0, kept=1.0, low=1.0, high=2.0, result="kept", why="")
_POINT = LoadPoint(rate=1.0, percent=50, repetition=1, ms=1.0, series="p99")
SEARCH = SearchFigures(sentence="", reasons=(), trace=(_TRY,), curve=(_POINT,), contract_p99_ms=50.0)


def headers() -> dict[str, list[str]]:
    """By file name, as they are written."""
    with tempfile.TemporaryDirectory() as directory:
        write_tables(Path(directory), replace(swept(), search=SEARCH))
        found = {path.name: next(csv.reader(path.open())) for path in sorted(Path(directory).glob("*.csv"))}
    knobs = ["knob", *(field.name for field in fields(KnobRow))]  # of five settings that the made sweep does not have
    return {
        **found,
        "knobs.csv": [written_name("knobs.csv", name) for name in knobs],
        "readers.csv": list(READERS),  # of cells with several groups of readers, which the made sweep does not have
        "compare-BASE.csv": list(comparison.HEADER),
    }


if __name__ == "__main__":
    print(columns_page(headers()), end="")
