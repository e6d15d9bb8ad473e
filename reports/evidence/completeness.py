"""Which evidence of a cell is missing: files against their list, streams against the plan, rows against three counts.

Each finding is a hole: what rests on it is inconclusive (reports/judge/holes.py). All but `cell_files` is pure.
Shown by tests/reports/test_reports_damage.py, which removes and damages every file of a sound run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from reports.read.cell import Cell, Run
from reports.read.model import Counts
from runlog.records.holes import Hole, HoleKind
from runlog.records.workload import COPIES, TOPIC
from runlog.streams.inventory import CellFiles, check_files

NEEDED = ("send", "log", "batches")
# By the first word of a file's name: that of a stream, or of a file of the cell.
FILES: Final[Mapping[str, HoleKind]] = {
    "send": HoleKind.SEND_ROWS,
    "recv": HoleKind.RECV_ROWS,
    "log": HoleKind.LOG_ROWS,
    "batches": HoleKind.BATCHES_ROWS,
    "uncommitted": HoleKind.LOG_ROWS,
    "copies": HoleKind.COPIES_ROWS,
    "audit": HoleKind.AUDIT_ROWS,
    "cell": HoleKind.CELL_FILE,
    "cluster": HoleKind.CLUSTER_FILE,
    "faults": HoleKind.FAULTS_FILE,
    "history": HoleKind.HISTORY_FILE,
    "stats": HoleKind.STATS_FILE,
    "wire": HoleKind.WIRE_FILE,
}
_NAME: Final = re.compile(r"[a-z]+")


def cell_files(run: Run) -> dict[str, CellFiles]:
    """Cell id -> its sound parts, before Spark opens any of them."""
    directory = Path(run.directory)
    return {cell.cell_id: check_files(directory, cell.cell_id, cell.listed_files, run.stored) for cell in run.cells}


def missing_evidence(cell: Cell, files: CellFiles, counts: Counts) -> tuple[Hole, ...]:
    """A hole for each piece of evidence that is missing."""
    return (
        *cell.holes,
        *map(hole_of_file, files.problems),
        *_streams(cell, files),
        *_rows(cell, counts),
        *_reads(cell),
    )


def hole_of_file(problem: str) -> Hole:
    """`problem` begins with the name of its file, as those of `CellFiles` do. What names no file of ours may be any."""
    name = _NAME.match(problem)
    return Hole(kind=FILES.get(name.group(), HoleKind.UNKNOWN) if name else HoleKind.UNKNOWN, what=problem)


def _streams(cell: Cell, files: CellFiles) -> list[Hole]:
    """Streams that the plan must have given rows to."""
    needed = [name for name in NEEDED if name == "send" or not _is_emptied(cell)]
    if has_readers(cell):
        needed.append("recv")
    if cell.record.workload.has_copiers:
        needed.append("copies")
    if any(reader.reads == COPIES for reader in cell.record.workload.readers):
        needed.append("audit")
    why = {"recv": " although the plan has readers", "copies": " although the plan has copiers",
           "audit": " although the plan has readers of copies"}  # fmt: skip
    return [
        Hole(kind=FILES[name], what=f"{name}: no row{why.get(name, '')}") for name in needed if not files.rows.get(name)
    ]


def _is_emptied(cell: Cell) -> bool:
    """Whether retention or DeleteRecords has taken all records, so that the final log has none."""
    read = cell.record.outcome.final_read
    starts = read.start_offsets or {}
    return read.complete and any(starts.values()) and dict(starts) == dict(read.end_offsets)


def has_readers(cell: Cell) -> bool:
    """Whether the topic itself has readers."""
    return any(reader.reads == TOPIC for reader in cell.record.workload.reader_groups)


def _rows(cell: Cell, counts: Counts) -> list[Hole]:
    """Rows against what others counted: they tell of a lost part also where no list of files was written."""
    found: list[Hole] = []
    handed_over = sum(producer.high_seq + 1 for producer in cell.record.outcome.producers)
    if counts.sent_total < handed_over:
        what = f"send: {counts.sent_total} rows, but {handed_over} records were handed to the clients"
        found.append(Hole(kind=HoleKind.SEND_ROWS, what=what))
    records, foreign = cell.record.outcome.final_read.records, cell.record.outcome.final_read.foreign
    uncommitted = cell.record.outcome.final_read.uncommitted or 0
    if records is not None and foreign is not None and counts.log_total != records - foreign - uncommitted:
        seen = records - foreign - uncommitted
        what = f"log: {counts.log_total} rows, but the final read saw {seen} records of the harness"
        found.append(Hole(kind=HoleKind.LOG_ROWS, what=what))
    return found


def _reads(cell: Cell) -> list[Hole]:
    copies = cell.record.outcome.copies
    if not cell.record.workload.has_copiers or copies.complete:
        return []
    what = f"copies: their topic was not read to its end: {copies.reason or 'it is not recorded as complete'}"
    return [Hole(kind=HoleKind.COPIES_ROWS, what=what)]
