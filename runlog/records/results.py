"""The documents below results/: where each is, and how it is read back.

The analysis writes verdicts.json, measurements.json and sweep.json; `harness compare` and `harness confirm` write the
others. `harness report RUN` writes the first three anew. Shown by tests/runlog/test_runlog_results.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from runlog.files.documents import read_json, write_json
from runlog.records.codec import from_document, to_json
from runlog.records.confirmation import ConfirmationRecord
from runlog.records.measurements import MEASUREMENTS_VERSION, Measurement, MeasurementsRecord
from runlog.records.sweep import SweepRecord
from runlog.records.verdicts import VerdictsRecord

VERDICTS_FILE: Final = "verdicts.json"
MEASUREMENTS_FILE: Final = "measurements.json"
SWEEP_FILE: Final = "sweep.json"
CONFIRMATION_FILE: Final = "confirm.json"


class MeasurementsError(Exception):
    """The file is missing or not what this version reads."""


def results_directory(run_dir: Path) -> Path:
    return run_dir / "results"


def comparison_stem(base: str) -> str:
    """Name of the files of a comparison with the run BASE, without their ending."""
    return f"compare-{base}"


def read_verdicts(run_dir: Path) -> VerdictsRecord:
    """FileNotFoundError when absent, ValueError naming the file when it is no JSON object."""
    return from_document(VerdictsRecord, read_json(results_directory(run_dir) / VERDICTS_FILE))


def read_sweep(run_dir: Path) -> SweepRecord:
    """As read_verdicts."""
    return from_document(SweepRecord, read_json(results_directory(run_dir) / SWEEP_FILE))


def write_confirmation(run_dir: Path, record: ConfirmationRecord) -> None:
    write_json(results_directory(run_dir) / CONFIRMATION_FILE, to_json(record))


def read_measurements(run_dir: Path) -> list[Measurement]:
    """MeasurementsError says what is wrong; `harness report RUN` writes the file anew."""
    path = results_directory(run_dir) / MEASUREMENTS_FILE
    try:
        record = from_document(MeasurementsRecord, read_json(path))
    except (OSError, ValueError) as error:
        raise MeasurementsError(f"{path}: cannot be read: {error}") from error
    if record.schema_version != MEASUREMENTS_VERSION:
        raise MeasurementsError(f"{path}: schema version {record.schema_version}, expected {MEASUREMENTS_VERSION}")
    if record.cells is None or not all(cell.cell_id and cell.name for cell in record.cells):
        raise MeasurementsError(f"{path}: not the form of version {MEASUREMENTS_VERSION}")
    return list(record.cells)


def read_analysis_id(run_dir: Path) -> str:
    """Which analysis wrote the figures of `read_measurements`; empty if an older version did not write it."""
    try:
        return from_document(MeasurementsRecord, read_json(results_directory(run_dir) / MEASUREMENTS_FILE)).analysis_id
    except (OSError, ValueError):
        return ""
