"""Cells and runs of a test, from documents and lines as a run directory has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from reports.read.cell import Cell, Run
from runlog.records.cell import CellRecord
from runlog.records.codec import Json, from_document, to_json
from runlog.records.fault import FaultLine
from runlog.records.lines import CLUSTER, FAULTS, HISTORY, STATS, WIRE
from runlog.records.run import RunRecord

Line = Mapping[str, Any]


def make_cell(
    cell_id: str = "c",
    *,
    document: Mapping[str, Any] | None = None,
    events: Iterable[Line] = (),
    faults: Iterable[Line] = (),
    wire: Iterable[Line] = (),
    stats: Iterable[Line] = (),
    history: Iterable[Line] = (),
) -> Cell:
    """Lines are read as those of a file are, and put in order of time. Fields of a fault that matter to no test are
    filled in."""
    return Cell(
        cell_id=cell_id,
        record=from_document(CellRecord, document or {}),
        cluster_events=tuple(sorted(map(CLUSTER.record, events), key=lambda line: line.t_us)),
        fault_lines=tuple(sorted(map(_fault, faults), key=lambda line: line.t_us)),
        exchanges=tuple(map(WIRE.record, wire)),
        samples=tuple(map(STATS.record, stats)),
        history_lines=tuple(sorted(map(HISTORY.record, history), key=lambda line: line.t_us)),
    )


def _fault(line: Line) -> FaultLine:
    return FAULTS.record({"t_us": 0, "id": "f", "kind": "kill", **line})


def document_of(cell: Cell) -> Json:
    """As cell.json has it."""
    return to_json(cell.record)


def stats_of(cell: Cell) -> tuple[Json, ...]:
    """As stats.jsonl has them."""
    return tuple(map(to_json, cell.samples))


def make_run(directory: str = "/", *, manifest: Line | None = None, cells: Iterable[Cell] = ()) -> Run:
    return Run(directory=directory, record=from_document(RunRecord, manifest or {}), cells=tuple(cells))


def changed(cell: Cell, **parts: Any) -> Cell:
    """The cell with another `document`, other `events` and so on, or another `cell_id`."""
    made = make_cell(**{"cell_id": cell.cell_id, **parts})
    fields = {"cell_id": "cell_id", "document": "record", "events": "cluster_events", "faults": "fault_lines",
              "wire": "exchanges", "stats": "samples", "history": "history_lines"}  # fmt: skip
    return replace(cell, **{fields[part]: getattr(made, fields[part]) for part in parts})
