"""Reads what a run directory says in JSON: manifest, cells, event lines. Tolerates what an interrupted run leaves.

Parquet is Spark's business (`tables.py`). Everything odd becomes a note, never a guess.
"""

from __future__ import annotations

import json
from pathlib import Path

from reports.model import Cell, Json, Run

EVENT_LINES_MAX = 2_000_000  # a cell writes thousands; more means a broken writer and must not eat the memory


class RunDirectoryError(Exception):
    """The directory is no run directory at all."""


def read_run(directory: Path) -> Run:
    """The run in `directory`. Raises RunDirectoryError if there is neither a manifest nor a cell."""
    notes: list[str] = []
    manifest = _read_object(directory / "manifest.json", notes)
    cells_directory = directory / "cells"
    found = sorted(path.name for path in cells_directory.iterdir() if path.is_dir()) if cells_directory.is_dir() else []
    if not manifest and not found:
        raise RunDirectoryError(f"{directory}: no manifest.json and no cells/: not a run directory")
    planned = [str(item) for item in manifest.get("cells", []) if isinstance(item, str)]
    absent = [name for name in planned if name not in found]
    if absent:
        notes.append(f"{len(absent)} planned cells left no directory: {', '.join(absent[:5])}")
    order = [name for name in planned if name in found] + [name for name in found if name not in planned]
    return Run(
        directory=str(directory.resolve()),
        manifest=manifest,
        cells=tuple(_read_cell(cells_directory / name, manifest) for name in order),
        notes=tuple(notes),
    )


def _read_cell(directory: Path, manifest: Json) -> Cell:
    notes: list[str] = []
    document = _read_object(directory / "cell.json", notes)
    t0_ns = manifest.get("t0_monotonic_ns")
    names = ("cluster", "faults", "wire", "stats", "history")
    lines = {name: _read_lines(directory / f"{name}.jsonl", notes) for name in names}
    for name in lines:
        for line in lines[name]:
            if "t_us" not in line and isinstance(line.get("mono_ns"), int) and isinstance(t0_ns, int):
                line["t_us"] = (line["mono_ns"] - t0_ns) // 1000
    return Cell(
        cell_id=directory.name,
        document=document,
        events=tuple(sorted(lines["cluster"], key=_time_us)),
        faults=tuple(sorted(lines["faults"], key=_time_us)),
        wire=tuple(lines["wire"]),
        stats=tuple(lines["stats"]),
        history=tuple(sorted(lines["history"], key=_time_us)),
        notes=tuple(notes),
    )


def _time_us(line: Json) -> int:
    value = line.get("t_us")
    return int(value) if isinstance(value, int | float) else 0


def _read_object(path: Path, notes: list[str]) -> Json:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        notes.append(f"{path.name} is missing")
        return {}
    except (ValueError, OSError) as error:
        notes.append(f"{path.name} is unreadable: {error}")
        return {}
    if not isinstance(value, dict):
        notes.append(f"{path.name} holds no JSON object")
        return {}
    return value


def _read_lines(path: Path, notes: list[str]) -> list[Json]:
    """Objects of a jsonl file. A torn last line is normal (the writer was killed); others are noted."""
    if not path.exists():
        return []
    lines: list[Json] = []
    broken = 0
    with path.open("rb") as stream:
        for number, raw in enumerate(stream):
            if number >= EVENT_LINES_MAX:
                notes.append(f"{path.name}: only the first {EVENT_LINES_MAX} lines were read")
                break
            try:
                value = json.loads(raw)
            except ValueError:
                broken += raw.endswith(b"\n")
                continue
            if isinstance(value, dict):
                lines.append(value)
    if broken:
        notes.append(f"{path.name}: {broken} unreadable lines were left out")
    return lines
