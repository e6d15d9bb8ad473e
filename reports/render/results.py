"""Writes all results of an analysis: documents, tables, junit.xml, summary.md and the page. Computes nothing."""

from __future__ import annotations

import json
from pathlib import Path

from reports.figures.figures import Figures
from reports.read.cell import Json
from reports.render.csv_tables import write_tables
from reports.render.files import replace_text
from reports.render.junit import junit
from reports.render.markdown import summary
from reports.render.measurements import write_measurements
from reports.render.page import write_page
from reports.render.sweep_json import sweep_document
from reports.render.verdicts_json import verdicts_document


def write_all(figures: Figures, into: Path) -> None:
    write_results(figures, into)
    write_page(figures, into)


def write_results(figures: Figures, into: Path) -> None:
    """What programs read, and junit.xml and summary.md."""
    results = into / "results"
    results.mkdir(parents=True, exist_ok=True)
    _write_json(results / "verdicts.json", verdicts_document(figures))
    write_measurements(into, figures.measurements, analysis_id=figures.run.analysis_id)
    if figures.sweep is not None:
        _write_json(results / "sweep.json", sweep_document(figures.sweep, analysis_id=figures.run.analysis_id))
    write_tables(results, figures)
    replace_text(into / "junit.xml", junit(figures))
    replace_text(into / "summary.md", summary(figures))


def _write_json(path: Path, document: Json) -> None:
    replace_text(path, json.dumps(document, indent=1, allow_nan=False) + "\n")
