"""results/spectra/<cell>.<kind>.hgrm: percentiles as HdrHistogram writes them, for the programs that draw such files.

Four columns: value in milliseconds, percentile as a fraction, number of records at most as slow, and 1/(1-percentile).
Two things differ from a file of HdrHistogram, and its comment says them: percentiles end where fewer than ten records
lie beyond them, and records that never came are part of the total. Shown by tests/reports/test_reports_spectra.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from reports.figures.cell import CellFigures
from reports.read.model import CORRECTED, END_TO_END, UNCORRECTED, Latency, answered_words
from reports.render.files import replace_text

KINDS: Final = (CORRECTED, UNCORRECTED, END_TO_END)
DIRECTORY: Final = "spectra"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._=-]")


def write_spectra(results: Path, cells: Sequence[CellFigures]) -> None:
    """One file a cell and kind that has samples. Files of an earlier analysis are removed."""
    directory = results / DIRECTORY
    if directory.is_dir():
        for old in directory.glob("*.hgrm"):
            old.unlink()
    for cell in cells:
        for kind in KINDS:
            latency = cell.told_latency.get(kind)
            if latency is not None and latency.spectrum:
                directory.mkdir(parents=True, exist_ok=True)
                replace_text(directory / f"{_UNSAFE.sub('_', cell.id)}.{kind}.hgrm", spectrum_text(kind, latency))


def spectrum_text(kind: str, latency: Latency) -> str:
    return "\n".join(_lines(kind, latency)) + "\n"


def _lines(kind: str, latency: Latency) -> Iterator[str]:
    yield f"{'Value':>12} {'Percentile':>14} {'TotalCount':>10} {'1/(1-Percentile)':>16}"
    yield ""
    for quantile, us, count in latency.spectrum:
        yield f"{us / 1000:12.3f} {quantile:14.12f} {count:10d} {1 / (1 - quantile):16.2f}"
    if latency.max_us is not None:
        place = latency.quantile_of_maximum
        inverse = "inf" if place >= 1 else f"{1 / (1 - place):.2f}"
        yield f"{latency.max_us / 1000:12.3f} {place:14.12f} {latency.n:10d} {inverse:>16}"
    mean, largest = (us / 1000 if us is not None else 0.0 for us in (latency.mean_us, latency.max_us))
    yield f"#[Mean    = {mean:12.3f}, StdDeviation   = {'-':>12}]"
    yield f"#[Max     = {largest:12.3f}, Total count    = {latency.n:12d}]"
    yield f"#{kind} latency in milliseconds. {answered_words(kind, latency)}: others are slower than all of these."
