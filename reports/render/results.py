"""Writes all results of an analysis: documents, tables, junit.xml, summary.md and the page. Computes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reports.figures.figures import Figures
from reports.render.csv_tables import write_tables
from reports.render.files import replace_text, write_record
from reports.render.junit import junit
from reports.render.markdown import summary
from reports.render.page import write_page
from reports.render.sweep_json import sweep_record
from reports.render.verdicts_json import verdicts_record
from runlog.records.measurements import MEASUREMENTS_VERSION, Measurement, MeasurementsRecord
from runlog.records.results import MEASUREMENTS_FILE, SWEEP_FILE, VERDICTS_FILE, results_directory


def write_all(figures: Figures, into: Path) -> None:
    write_results(figures, into)
    write_page(figures, into)


def write_results(figures: Figures, into: Path) -> None:
    """What programs read, and junit.xml and summary.md."""
    results, analysis_id = results_directory(into), figures.run.analysis_id
    results.mkdir(parents=True, exist_ok=True)
    write_record(results / VERDICTS_FILE, verdicts_record(figures))
    write_measurements(into, figures.measurements, analysis_id=analysis_id)
    if figures.sweep is not None:
        write_record(results / SWEEP_FILE, sweep_record(figures.sweep, analysis_id=analysis_id))
    write_tables(results, figures)
    replace_text(into / "junit.xml", junit(figures))
    replace_text(into / "summary.md", summary(figures))


def write_measurements(run_dir: Path, cells: Sequence[Measurement], *, analysis_id: str = "") -> None:
    """`runlog.records.results.read_measurements` reads it back."""
    results = results_directory(run_dir)
    results.mkdir(parents=True, exist_ok=True)
    record = MeasurementsRecord(schema_version=MEASUREMENTS_VERSION, analysis_id=analysis_id, cells=tuple(cells))
    write_record(results / MEASUREMENTS_FILE, record)
