"""Cells and runs of a test, from documents and lines as a run directory has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from reports.read.cell import Cell, Run
from runlog.records.cell import CellRecord
from runlog.records.codec import from_document
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
    document = dict(document or {})
    events, wire, stats, history = tuple(events), tuple(wire), tuple(stats), tuple(history)
    faults = tuple({"t_us": 0, "id": "f", "kind": "kill", **line} for line in faults)
    return Cell(
        cell_id=cell_id,
        record=from_document(CellRecord, document),
        document=document,
        cluster_events=tuple(sorted(map(CLUSTER.record, events), key=lambda line: line.t_us)),
        fault_lines=tuple(sorted(map(FAULTS.record, faults), key=lambda line: line.t_us)),
        exchanges=tuple(map(WIRE.record, wire)),
        samples=tuple(map(STATS.record, stats)),
        history_lines=tuple(sorted(map(HISTORY.record, history), key=lambda line: line.t_us)),
        events=tuple(map(dict, events)),
        faults=faults,
        wire=tuple(map(dict, wire)),
        stats=tuple(map(dict, stats)),
        history=tuple(map(dict, history)),
    )


def make_run(directory: str = "/", *, manifest: Mapping[str, Any] | None = None, cells: Iterable[Cell] = ()) -> Run:
    manifest = dict(manifest or {})
    return Run(directory=directory, record=from_document(RunRecord, manifest), manifest=manifest, cells=tuple(cells))


def changed(cell: Cell, **parts: Any) -> Cell:
    """The cell with another `document`, other `events` and so on, or another `cell_id`."""
    names = ("cell_id", "document", "events", "faults", "wire", "stats", "history")
    same = {name: getattr(cell, name) for name in names}
    return replace(make_cell(**{**same, **parts}), notes=cell.notes, problems=cell.problems)
