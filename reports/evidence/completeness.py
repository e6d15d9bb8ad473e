"""Which evidence of a cell is missing: files against their list, streams against the plan, rows against three counts.

Each finding makes the cell inconclusive, because missing evidence could show anything. All but `cell_files` is pure.
Shown by tests/reports/test_reports_damage.py, which removes and damages every file of a sound run.
"""

from __future__ import annotations

from pathlib import Path

from reports.read.cell import Cell, Run
from reports.read.model import Counts
from runlog.records.workload import COPIES, TOPIC
from runlog.streams.inventory import CellFiles, check_files
from runlog.streams.schema import BATCHES

NEEDED = ("send", "log")


def cell_files(run: Run) -> dict[str, CellFiles]:
    """Cell id -> its sound parts, before Spark opens any of them."""
    directory = Path(run.directory)
    return {cell.cell_id: check_files(directory, cell.cell_id, cell.listed_files, run.stored) for cell in run.cells}


def missing_evidence(cell: Cell, files: CellFiles, counts: Counts) -> tuple[str, ...]:
    """A sentence for each piece of evidence that is missing."""
    return (
        *cell.problems,
        *files.problems,
        *_streams(cell, files),
        *_rows(cell, counts),
        *_reads(cell),
    )


def missing_beside(files: CellFiles) -> tuple[str, ...]:
    """Missing evidence that is not about single records. Without it the cell is no pass, but a violation that was
    seen remains one."""
    return () if files.rows.get(BATCHES.name) else ("batches: no row",)


def _streams(cell: Cell, files: CellFiles) -> list[str]:
    """Streams that the plan must have given rows to."""
    needed = list(NEEDED)
    if has_readers(cell):
        needed.append("recv")
    if cell.record.workload.has_copiers:
        needed.append("copies")
    if any(reader.reads == COPIES for reader in cell.record.workload.readers):
        needed.append("audit")
    why = {"recv": " although the plan has readers", "copies": " although the plan has copiers",
           "audit": " although the plan has readers of copies"}  # fmt: skip
    return [f"{name}: no row{why.get(name, '')}" for name in needed if not files.rows.get(name)]


def has_readers(cell: Cell) -> bool:
    """Whether the topic itself has readers."""
    return any(reader.reads == TOPIC for reader in cell.record.workload.reader_groups)


def _rows(cell: Cell, counts: Counts) -> list[str]:
    """Rows against what others counted: they tell of a lost part also where no list of files was written."""
    found: list[str] = []
    handed_over = sum(producer.high_seq + 1 for producer in cell.record.outcome.producers)
    if counts.sent_total < handed_over:
        found.append(f"send: {counts.sent_total} rows, but {handed_over} records were handed to the clients")
    records, foreign = cell.record.outcome.final_read.records, cell.record.outcome.final_read.foreign
    if records is not None and foreign is not None and counts.log_total != records - foreign:
        found.append(f"log: {counts.log_total} rows, but the final read saw {records - foreign} records of the harness")
    return found


def _reads(cell: Cell) -> list[str]:
    copies = cell.record.outcome.copies
    if not cell.record.workload.has_copiers or copies.complete:
        return []
    return [f"copies: their topic was not read to its end: {copies.reason or 'it is not recorded as complete'}"]
