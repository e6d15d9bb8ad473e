"""Writes the analysis of a sweep beside the other results: sweep.json and the CSV table behind each chart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from reports import chart_data, generator, search, waterfall
from reports.measurements import write_measurements
from reports.model import Json
from reports.outputs import Judged, replace_text, write_csv
from reports.sweep.analysis import SweepAnalysis, analyse_sweep
from reports.sweep.tables import as_json, tables


def write_figures(
    directory: Path, judged: Sequence[Judged], manifest: Json, *, analysis_id: str = "", into: Path | None = None
) -> SweepAnalysis | None:
    """What every run has beside its verdicts, and the analysis of a sweep. `directory` is the run's; what is written
    goes there too, or `into` another."""
    target = into or directory
    write_measurements(target, judged, analysis_id=analysis_id)
    write_csv(target / "results" / "generator.csv", *generator.table(judged))
    write_csv(target / "results" / "certificates.csv", *generator.certificate_table(manifest))
    write_csv(target / "results" / "stages.csv", *waterfall.table(judged))
    for name, (header, rows) in chart_data.tables(judged).items():
        write_csv(target / "results" / name, header, rows)
    found = search.read_search(directory)
    for name, (header, rows) in (search.tables(found, judged) if found else {}).items():
        write_csv(target / "results" / name, header, rows)
    return write_sweep(target, judged, analysis_id=analysis_id)


def write_sweep(directory: Path, judged: Sequence[Judged], *, analysis_id: str = "") -> SweepAnalysis | None:
    """Into `directory`/results; nothing if the run holds no sweep."""
    analysis = analyse_sweep(judged)
    if analysis is None:
        return None
    results = directory / "results"
    results.mkdir(parents=True, exist_ok=True)
    document = {**as_json(analysis), "analysis_id": analysis_id}
    replace_text(results / "sweep.json", json.dumps(document, indent=1, allow_nan=False) + "\n")
    for name, (header, rows) in tables(analysis).items():
        write_csv(results / name, header, rows)
    return analysis
