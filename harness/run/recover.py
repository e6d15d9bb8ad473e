"""A run whose harness was killed: what its load processes wrote becomes Parquet, and its documents say what happened.

The harness compacts each cell when it ends; after a SIGKILL, a lost machine or a full disk somebody else must.
`harness report` calls this first. It changes nothing of a run that ended by itself, and refuses one that still goes on.
Shown by tests/harness/test_harness_interrupt.py.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from pathlib import Path
from typing import Final

from chaos.lease import ProcessIdentity, is_alive
from chaos.place import Place, here
from harness.errors import UsageError
from runlog.files.documents import read_cell, read_json, write_cell, write_manifest
from runlog.files.lines import read_jsonl
from runlog.files.paths import events_path, manifest_path
from runlog.streams.compact import CompactionResult, compact_cell
from runlog.streams.inventory import take_inventory
from workloads.members.transcribe import transcribe_cell

RUNNING: Final = "running"
QUIET_S: Final = 60  # a run that goes on writes several times a second, and while a cluster starts its brokers do
FILES_LOOKED_AT_MAX: Final = 10_000
_REASON: Final = "the harness was killed in the middle of this cell"


def recover_run(run_dir: Path) -> list[str]:
    """A line for each thing done; none when the run had ended properly. UsageError while its harness is alive."""
    if not manifest_path(run_dir).is_file():
        return []
    manifest = read_json(manifest_path(run_dir))
    if manifest.get("status") != RUNNING:
        return []
    _refuse_while_it_goes_on(run_dir, manifest.get("owner"))
    cells = run_dir / "cells"
    done = (
        [_recover_cell(run_dir, path.name, int(manifest["t0_monotonic_ns"])) for path in sorted(cells.iterdir())]
        if cells.is_dir()
        else []
    )
    write_manifest(run_dir, {**manifest, "status": "killed"})
    return [line for line in done if line]


def _refuse_while_it_goes_on(run_dir: Path, document: object) -> None:
    """UsageError. An owner in another container or on another host cannot be seen; what it writes can."""
    try:
        owner, place = _owner(document)
    except (KeyError, TypeError, ValueError):
        return  # it says nothing of its owner
    where = "here" if place is None else place.seen_from(here())
    if where == "here" and is_alive(owner):
        raise UsageError(
            f"{run_dir} is still being written by process {owner.pid}: wait for it, or stop it with Ctrl-C"
        )
    if where == "elsewhere" and place is not None and _quiet_s(run_dir) < QUIET_S:
        raise UsageError(
            f"{run_dir} was written less than {QUIET_S} s ago, by process {owner.pid} on {place.host} "
            f"({place.pid_namespace}), which cannot be seen from here: wait until that run is over"
        )


def _owner(document: object) -> tuple[ProcessIdentity, Place | None]:
    if not isinstance(document, dict):
        raise TypeError("the owner is an object")
    place = document.get("place")
    identity = ProcessIdentity(pid=int(document["pid"]), start_ticks=int(document["start_ticks"]))
    return identity, None if place is None else Place.from_json(place)


def _quiet_s(run_dir: Path) -> float:
    """Since anything in it was written."""
    newest = 0.0
    for path in itertools.islice(run_dir.rglob("*"), FILES_LOOKED_AT_MAX):
        with contextlib.suppress(OSError):
            newest = max(newest, path.lstat().st_mtime)
    return time.time() - newest


def _recover_cell(run_dir: Path, cell_id: str, t0_monotonic_ns: int) -> str:
    result = compact_cell(run_dir, cell_id)
    try:
        document = read_cell(run_dir, cell_id)
    except (FileNotFoundError, ValueError):
        return ""  # killed before it was written: nothing had been sent
    outcome = document.get("outcome")
    if not isinstance(outcome, dict) or outcome.get("ended_us") is not None:
        return ""
    transcribe_cell(run_dir, cell_id, topic=str(document["topic"]["name"]), t0_monotonic_ns=t0_monotonic_ns)
    outcome |= {"status": "interrupted", "reason": _REASON}
    outcome |= _measured_window(run_dir, cell_id)
    if result.producers:
        outcome["producers"] = _producers(result)
    write_cell(run_dir, {**document, "files": take_inventory(run_dir, cell_id)})
    rows = ", ".join(f"{count} rows of {stream}" for stream, count in sorted(result.rows.items())) or "no rows"
    return f"{cell_id}: {rows} recovered; {_REASON}"


def _measured_window(run_dir: Path, cell_id: str) -> dict[str, int]:
    """From the phases in stats.jsonl; one that had not ended lasted until the last sign of life."""
    window: dict[str, int] = {}
    last_us = 0
    for event in read_jsonl(events_path(run_dir, cell_id, "stats")):
        last_us = int(event.get("t_us", last_us))
        key = {"measure": "measure_start_us", "drain": "measure_end_us"}.get(str(event.get("value")))
        if event.get("name") == "phase" and key is not None:
            window[key] = last_us
    if "measure_start_us" in window:
        window.setdefault("measure_end_us", last_us)
    return window


def _producers(result: CompactionResult) -> list[dict[str, int]]:
    return [
        {"producer": item.producer, "incarnation": item.incarnation, "high_seq": item.high_seq}
        for item in result.producers
    ]
