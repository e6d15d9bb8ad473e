"""Reads the JSON files of a run directory as records: manifest, cells, lines. Tolerates what a killed run leaves.

Spark reads Parquet (`tables.py`). Everything unusual becomes a note, or a problem of the run, or a hole in the evidence
of a cell. Nothing is guessed. A note changes nothing. With a problem the run is no pass. What rests on a hole is said
by reports/judge/holes.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, Protocol, TypeVar

from reports.read.cell import Cell, Json, Run
from reports.read.errors import UsageProblem
from runlog.files.strangers import clean_document, clean_text, is_cell_name, strange_entry
from runlog.records.cell import CellRecord, CellStatus
from runlog.records.codec import from_document
from runlog.records.documents import SEARCH_FILE, search_of
from runlog.records.holes import Hole, HoleKind
from runlog.records.lines import CLUSTER, FAULTS, HISTORY, STATS, WIRE, Family, read_lines
from runlog.records.run import RunRecord, RunStatus
from runlog.records.search import SearchRecord
from runlog.streams.inventory import INVENTORY_SINCE

DOCUMENT_BYTES_MAX: Final = 64 << 20  # a manifest of ten thousand cells has ten
R = TypeVar("R")


class RunDirectoryError(UsageProblem):
    """The directory is no run directory at all."""


def read_run(directory: Path) -> Run:
    """The run in `directory`, with a cell for each that was planned. RunDirectoryError if it has neither manifest nor
    cell."""
    directory = directory.resolve()
    if directory.is_dir() and (problem := strange_entry(directory)):
        raise RunDirectoryError(f"{directory}: {problem}")
    notes: list[str] = []
    problems: list[str] = []
    manifest = _read_object(directory / "manifest.json", problems)
    cells_directory = directory / "cells"
    there = sorted(path.name for path in cells_directory.iterdir() if path.is_dir()) if cells_directory.is_dir() else []
    found = [name for name in there if is_cell_name(name)]
    if len(found) < len(there):
        strange = [clean_text(name) for name in there if not is_cell_name(name)]
        notes.append(f"{len(strange)} directories in cells/ have names that no cell has: {', '.join(strange[:5])}")
    if not manifest and not found:
        raise RunDirectoryError(f"{directory}: no manifest.json and no cells/: not a run directory")
    record = from_document(RunRecord, manifest)
    planned = _planned(record, notes, problems) if manifest else []
    absent = [name for name in planned if name not in found]
    if absent:
        notes.append(f"{len(absent)} planned cells left no directory: {', '.join(absent[:5])}")
    if manifest:
        _check_status(record, manifest.get("status"), notes, problems)
    search = _search(directory, record, problems)
    order = [*planned, *(name for name in found if name not in planned)]
    return Run(
        directory=str(directory.resolve()),
        record=record,
        search=search,
        cells=tuple(
            _absent_cell(name) if name in absent else _read_cell(cells_directory / name, record) for name in order
        ),
        notes=tuple(notes),
        problems=tuple(problems),
    )


def _planned(record: RunRecord, notes: list[str], problems: list[str]) -> list[str]:
    """Ids of the planned cells, each once: one that is named twice would count double everywhere."""
    if record.cells is None:
        problems.append("manifest.json does not say which cells were planned")
        return []
    planned = list(dict.fromkeys(name for name in record.cells if _is_cell_id(name)))
    if odd := [name for name in record.cells if not _is_cell_id(name)]:
        problems.append(f"manifest.json names {len(odd)} cells by what is no cell id, e.g. {str(odd[0])[:60]!r}")
    elif len(planned) < len(record.cells):
        notes.append(f"manifest.json names {len(record.cells) - len(planned)} cells more than once: each counts once")
    return planned


def _is_cell_id(name: object) -> bool:
    return isinstance(name, str) and is_cell_name(name)


def _is_listing(record: RunRecord) -> bool:
    """Whether this run's cells list their files. Older ones do not, so a missing file cannot be noticed."""
    return record.schema_version is not None and record.schema_version >= INVENTORY_SINCE


def _check_status(record: RunRecord, written: object, notes: list[str], problems: list[str]) -> None:
    """`written`: what the manifest says, whatever that is."""
    if record.status is RunStatus.FINISHED:
        return
    if written is None and not _is_listing(record):
        notes.append("whether the run came to its end is not recorded (written before version 3 of the run log)")
    else:
        told = RunStatus.NOT_RECORDED.value if written is None else str(written)[:60]
        problems.append(f"the run did not come to its end: its manifest says {told!r}, not 'finished'")


def _search(directory: Path, record: RunRecord, problems: list[str]) -> SearchRecord | None:
    """That it is missing is a problem of a run that searched; that it is of another version is none."""
    odd: list[str] = []
    found = search_of(_read_object(directory / SEARCH_FILE, odd))
    if record.has_search and _is_listing(record):
        problems += odd
    return found


def _absent_cell(name: str) -> Cell:
    why = "the cell was planned and left no directory"
    document = {"cell_id": name, "outcome": {"status": CellStatus.ABSENT.value, "reason": why}}
    return Cell(cell_id=name, record=from_document(CellRecord, document))


def _read_cell(directory: Path, run: RunRecord) -> Cell:
    notes: list[str] = []
    holes: list[Hole] = []
    document = _cell_document(directory, holes)
    record = from_document(CellRecord, document)
    if record.cell_id not in ("", directory.name):
        holes.append(Hole(kind=HoleKind.CELL_FILE, what=f"cell.json is of the cell {record.cell_id[:60]!r}"))
    # A line that is left out may be the one.
    cluster = sorted(_lines(directory, CLUSTER, run, HoleKind.CLUSTER_FILE, holes), key=_time_us)
    faults = sorted(_lines(directory, FAULTS, run, HoleKind.FAULTS_FILE, holes), key=_time_us)
    exchanges = _lines(directory, WIRE, run, HoleKind.WIRE_FILE, holes)
    samples = _lines(directory, STATS, run, HoleKind.SAMPLES, holes)
    history = sorted(_lines(directory, HISTORY, run, HoleKind.HISTORY_FILE, holes), key=_time_us)
    listed = document.get("files")
    if document and listed is None:
        _tell_unlisted(run, notes, holes)
    return Cell(
        cell_id=directory.name,
        record=record,
        listed_files=listed,
        cluster_events=tuple(cluster),
        fault_lines=tuple(faults),
        exchanges=exchanges,
        samples=samples,
        history_lines=tuple(history),
        notes=tuple(notes),
        holes=tuple(holes),
    )


def _cell_document(directory: Path, holes: list[Hole]) -> Json:
    problems: list[str] = []
    document = _read_object(directory / "cell.json", problems)
    holes += [Hole(kind=HoleKind.CELL_FILE, what=problem) for problem in problems]
    return document


def _tell_unlisted(run: RunRecord, notes: list[str], holes: list[Hole]) -> None:
    if _is_listing(run):
        what = "cell.json does not list the cell's files: it was not written to its end"
        holes.append(Hole(kind=HoleKind.CELL_FILE, what=what))
    else:
        notes.append("the cell's files are not listed (written before version 3): one that is gone leaves no trace")


def _lines(directory: Path, family: Family[R], run: RunRecord, kind: HoleKind, holes: list[Hole]) -> tuple[R, ...]:
    """`holes` gets what was left out."""
    path = directory / f"{family.name}.jsonl"
    read = read_lines(path, family, t0_monotonic_ns=run.t0_monotonic_ns)
    torn = [f"{path.name}: the last line is torn and was left out"] if read.is_torn else []
    holes += [Hole(kind=kind, what=what) for what in (*read.problems, *torn)]
    return read.records


class _Timed(Protocol):
    @property
    def t_us(self) -> int: ...


def _time_us(line: _Timed) -> int:
    return line.t_us


def _read_object(path: Path, problems: list[str]) -> Json:
    """A JSON object; {} and a problem for anything else. Links are not followed."""
    try:
        if path.is_symlink():
            raise OSError("a link, which is not followed")
        with path.open("rb") as file:
            text = file.read(DOCUMENT_BYTES_MAX + 1)
        if len(text) > DOCUMENT_BYTES_MAX:
            raise ValueError(f"larger than {DOCUMENT_BYTES_MAX} bytes")
        value = json.loads(text)
    except FileNotFoundError:
        problems.append(f"{path.name} is missing")
        return {}
    except (ValueError, OSError, RecursionError) as error:
        problems.append(f"{path.name} is unreadable: {error}")
        return {}
    if not isinstance(value, dict):
        problems.append(f"{path.name} holds no JSON object")
        return {}
    cleaned: Json = clean_document(value)
    return cleaned
