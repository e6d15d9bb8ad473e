"""A run whose harness was killed: what its load processes wrote becomes Parquet, and its documents say what happened.

The harness compacts each cell when it ends; after a SIGKILL, a lost machine or a full disk somebody else must.
`harness report` calls this first. It changes nothing of a run that ended by itself, and refuses one that still goes on.
Shown by tests/harness/test_harness_interrupt.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from chaos.lease import ProcessIdentity, is_alive
from harness.errors import UsageError
from runlog.compact import CompactionResult, compact_cell
from runlog.events import events_path, manifest_path, read_cell, read_json, read_jsonl, write_cell, write_manifest
from workloads.members.transcribe import transcribe_cell

RUNNING: Final = "running"
_REASON: Final = "the harness was killed in the middle of this cell"


def recover_run(run_dir: Path) -> list[str]:
    """A line for each thing done; none when the run had ended properly. UsageError while its harness is alive."""
    if not manifest_path(run_dir).is_file():
        return []
    manifest = read_json(manifest_path(run_dir))
    if manifest.get("status") != RUNNING:
        return []
    owner = _owner(manifest)
    if owner is not None and is_alive(owner):
        raise UsageError(
            f"{run_dir} is still being written by process {owner.pid}: wait for it, or stop it with Ctrl-C"
        )
    cells = run_dir / "cells"
    done = (
        [_recover_cell(run_dir, path.name, int(manifest["t0_monotonic_ns"])) for path in sorted(cells.iterdir())]
        if cells.is_dir()
        else []
    )
    write_manifest(run_dir, {**manifest, "status": "killed"})
    return [line for line in done if line]


def _owner(manifest: dict[str, Any]) -> ProcessIdentity | None:
    owner = manifest.get("owner")
    if not isinstance(owner, dict):
        return None
    return ProcessIdentity(pid=int(owner["pid"]), start_ticks=int(owner["start_ticks"]))


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
    write_cell(run_dir, document)
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
