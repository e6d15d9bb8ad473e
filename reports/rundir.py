"""Reads what a run directory says in JSON: manifest, cells, event lines. Tolerates what an interrupted run leaves.

Parquet is Spark's business (`tables.py`). Everything odd becomes a note or a problem, never a guess: a note changes
nothing, a problem says that evidence is missing, and what it is about is no pass.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from reports.errors import UsageProblem
from reports.model import Cell, Json, Run
from runlog.event_lines import read_event_lines
from runlog.inventory import INVENTORY_SINCE
from runlog.strangers import clean_document, clean_text, is_cell_name, strange_entry

DOCUMENT_BYTES_MAX: Final = 64 << 20  # a manifest of ten thousand cells has ten
EVENT_FILES: Final = ("cluster", "faults", "wire", "stats", "history")
NOT_RECORDED: Final = "not recorded"


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
    planned = _planned(manifest, notes, problems)
    absent = [name for name in planned if name not in found]
    if absent:
        notes.append(f"{len(absent)} planned cells left no directory: {', '.join(absent[:5])}")
    if manifest:
        _check_status(manifest, notes, problems)
        _check_search(directory, manifest, problems)
    order = [*planned, *(name for name in found if name not in planned)]
    is_listing = _is_listing(manifest)
    return Run(
        directory=str(directory.resolve()),
        manifest=manifest,
        cells=tuple(
            _absent_cell(name) if name in absent else _read_cell(cells_directory / name, manifest, is_listing)
            for name in order
        ),
        notes=tuple(notes),
        problems=tuple(problems),
    )


def _planned(manifest: Json, notes: list[str], problems: list[str]) -> list[str]:
    """Ids of the planned cells, each once: one that is named twice would count double everywhere."""
    listed = manifest.get("cells")
    if not isinstance(listed, list):
        if manifest:
            problems.append("manifest.json does not say which cells were planned")
        return []
    planned = list(dict.fromkeys(name for name in listed if _is_cell_id(name)))
    if odd := [name for name in listed if not _is_cell_id(name)]:
        problems.append(f"manifest.json names {len(odd)} cells by what is no cell id, e.g. {str(odd[0])[:60]!r}")
    elif len(planned) < len(listed):
        notes.append(f"manifest.json names {len(listed) - len(planned)} cells more than once: each counts once")
    return planned


def _is_cell_id(name: object) -> bool:
    return isinstance(name, str) and is_cell_name(name)


def _is_listing(manifest: Json) -> bool:
    """Whether this run's cells list their files. Older ones do not, and then nobody can tell what they have lost."""
    version = manifest.get("schema_version")
    return isinstance(version, int) and version >= INVENTORY_SINCE


def _check_status(manifest: Json, notes: list[str], problems: list[str]) -> None:
    status = manifest.get("status", NOT_RECORDED)
    if status == NOT_RECORDED and not _is_listing(manifest):
        notes.append("whether the run came to its end is not recorded (written before version 3 of the run log)")
    elif status != "finished":
        problems.append(f"the run did not come to its end: its manifest says {str(status)[:60]!r}, not 'finished'")


def _check_search(directory: Path, manifest: Json, problems: list[str]) -> None:
    suite = manifest.get("suite_document")
    if isinstance(suite, dict) and suite.get("search") and _is_listing(manifest):
        _read_object(directory / "search.json", problems)


def _absent_cell(name: str) -> Cell:
    why = "the cell was planned and left no directory"
    return Cell(cell_id=name, document={"cell_id": name, "outcome": {"status": "absent", "reason": why}})


def _read_cell(directory: Path, manifest: Json, is_listing: bool) -> Cell:
    notes: list[str] = []
    problems: list[str] = []
    document = _read_object(directory / "cell.json", problems)
    own_id = document.get("cell_id", directory.name)
    if own_id != directory.name:
        problems.append(f"cell.json is of the cell {str(own_id)[:60]!r}")
    t0_ns = manifest.get("t0_monotonic_ns")
    lines = {}
    for name in EVENT_FILES:
        path = directory / f"{name}.jsonl"
        read = read_event_lines(path, t0_monotonic_ns=t0_ns if isinstance(t0_ns, int) else None)
        # Samples of the host decide nothing about records; of all others a line that is left out may be the one.
        told = notes if name == "stats" else problems
        told.extend(read.problems)
        if read.is_torn:
            told.append(f"{path.name}: the last line is torn and was left out")
        lines[name] = read.events
    files = document.get("files")
    if files is None and is_listing and document:
        problems.append("cell.json does not list the cell's files: it was not written to its end")
    elif files is None and document:
        notes.append("the cell's files are not listed (written before version 3): one that is gone leaves no trace")
    return Cell(
        cell_id=directory.name,
        document=document,
        events=tuple(sorted(lines["cluster"], key=_time_us)),
        faults=tuple(sorted(lines["faults"], key=_time_us)),
        wire=lines["wire"],
        stats=lines["stats"],
        history=tuple(sorted(lines["history"], key=_time_us)),
        notes=tuple(notes),
        problems=tuple(problems),
    )


def _time_us(line: Json) -> int:
    value = line.get("t_us")
    return int(value) if isinstance(value, int | float) else 0


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
