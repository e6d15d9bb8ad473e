"""The small files of a run directory: JSON lines written while running, manifest.json, cell.json, and the run's clock.

Each event is one write(2), so a kill tears at most the last line and readers skip that one. JSON documents appear by
rename. Nothing here knows what the events mean: `docs/internals/contracts.md` lists them.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Event = dict[str, Any]  # JSON objects: their values are what JSON allows


@dataclass(frozen=True, slots=True, kw_only=True)
class RunClock:
    """Microseconds since the run's start on CLOCK_MONOTONIC, the one clock of the host."""

    t0_monotonic_ns: int

    @classmethod
    def starting_now(cls) -> RunClock:
        return cls(t0_monotonic_ns=time.monotonic_ns())

    def now_us(self) -> int:
        return (time.monotonic_ns() - self.t0_monotonic_ns) // 1_000

    def to_us(self, mono_ns: int) -> int:
        return (mono_ns - self.t0_monotonic_ns) // 1_000

    def to_mono_ns(self, t_us: int) -> int:
        return self.t0_monotonic_ns + t_us * 1_000


class JsonlWriter:
    """Appends events to one file from any thread. If the file ends in a torn line, a new line is begun first."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._lock = threading.Lock()
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            os.write(self._descriptor, b"\n")

    def append(self, event: Mapping[str, Any]) -> None:
        """Write one event; after close() nothing happens. OSError when the disk refuses."""
        line = json.dumps(event, separators=(",", ":"), default=str).encode() + b"\n"
        with self._lock:
            if self._descriptor >= 0:
                os.write(self._descriptor, line)

    def close(self) -> None:
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def __enter__(self) -> JsonlWriter:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def read_jsonl(path: Path, *, containing: str = "") -> Iterator[Event]:
    """Events of a file in order; none when it does not exist. Lines torn by a kill are left out, and those without the
    text `containing` are not even parsed."""
    if not path.exists():
        return
    text = containing.encode()
    with path.open("rb") as lines:
        for line in lines:
            event = parse_line(line) if text in line else None
            if event is not None:
                yield event


def parse_line(line: bytes) -> Event | None:
    """One event, or None for a torn or empty line."""
    if not line.endswith(b"\n"):
        return None
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Replace a JSON document in one step, readable by its user alone. It is on disk when this returns.

    After an error the old document stands, and nothing is left beside it. Two writers do not disturb each other: the
    later one wins.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            json.dump(document, out, indent=2, default=str)
            out.write("\n")
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Returns when the names in it are on disk. OSError for what is no directory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(path: Path) -> Event:
    """A JSON object. FileNotFoundError when absent, ValueError naming the file when it is not an object."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise ValueError(f"{path} holds no JSON object")
    return document


def manifest_path(run_dir: Path) -> Path:
    return run_dir / "manifest.json"


def read_manifest(run_dir: Path) -> Event:
    return read_json(manifest_path(run_dir))


def write_manifest(run_dir: Path, manifest: Mapping[str, Any]) -> None:
    write_json(manifest_path(run_dir), manifest)


def clock_of(run_dir: Path) -> RunClock:
    return RunClock(t0_monotonic_ns=int(read_manifest(run_dir)["t0_monotonic_ns"]))


def cell_directory(run_dir: Path, cell_id: str) -> Path:
    return run_dir / "cells" / cell_id


def live_directory(run_dir: Path, cell_id: str) -> Path:
    return cell_directory(run_dir, cell_id) / "live"


def events_path(run_dir: Path, cell_id: str, name: str) -> Path:
    """Path of the cell's `cluster`, `faults`, `wire` or `stats` events."""
    return cell_directory(run_dir, cell_id) / f"{name}.jsonl"


def read_cell(run_dir: Path, cell_id: str) -> Event:
    return read_json(cell_directory(run_dir, cell_id) / "cell.json")


def write_cell(run_dir: Path, cell: Mapping[str, Any]) -> None:
    """Write cell.json of the cell named by its own `cell_id`."""
    write_json(cell_directory(run_dir, str(cell["cell_id"])) / "cell.json", cell)
