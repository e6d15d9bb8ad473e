"""Writes the history of a cell of a run directory as EDN, one operation a line. Only here the run log is read.

Shown by tests/reports/test_reports_jepsen_runs.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from reports.jepsen.from_run import COLUMNS, Columns, operations_of
from reports.jepsen.operations import line_of
from reports.read.cell import Cell
from runlog.streams.parquet import column_chunks, row_count

ROWS_MAX: Final = 4_000_000  # of all streams of a cell: 1 GB of memory, and as much in the file


class ExportError(ValueError):
    """The cell cannot be written as a history."""


def history_lines(run_dir: Path, cell: Cell) -> Iterator[str]:
    """Lines of EDN in order of time, without their ends. ExportError, before the first line, for a cell without a run
    log or with more rows than ROWS_MAX."""
    rows = {name: row_count(run_dir, name, cell.cell_id) for name in COLUMNS}
    if not any(rows.values()):
        raise ExportError(f"cell {cell.cell_id}: its run log has no rows in {run_dir}")
    if (total := sum(rows.values())) > ROWS_MAX:
        raise ExportError(f"cell {cell.cell_id}: its run log has {total:,} rows; a history takes at most {ROWS_MAX:,}")
    columns = {name: _columns(run_dir, name, cell.cell_id) for name in COLUMNS}
    operations = operations_of(cell, columns, run=run_dir.name)
    return (line_of(operation) for operation in operations)


def _columns(run_dir: Path, stream: str, cell_id: str) -> Columns:
    names = COLUMNS[stream]
    chunks = list(column_chunks(run_dir, stream, cell_id, names))
    empty = np.zeros(0, dtype=np.int64)
    return {name: np.concatenate([chunk[name] for chunk in chunks]) if chunks else empty for name in names}
