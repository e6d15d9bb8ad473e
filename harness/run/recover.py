"""Recovers a run whose harness was killed: writes Parquet from what its load processes wrote, and completes its
documents.

The harness compacts each cell when it ends. After a SIGKILL, a lost machine or a full disk, this module does it.
`harness report` calls this first. It changes nothing in a run that ended by itself, and refuses a run that is still
going on. Shown by tests/harness/test_harness_interrupt.py."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from chaos.lease import ProcessIdentity, is_alive
from harness.errors import UsageError
from runlog.files.documents import remove_halves
from runlog.files.paths import events_path, manifest_path
from runlog.files.place import here
from runlog.records.cell import CellStatus
from runlog.records.documents import read_cell, read_run_record, write_cell, write_run
from runlog.records.lines import STATS, read_lines
from runlog.records.load import LoadPhase
from runlog.records.run import RunRecord, RunStatus
from runlog.records.stats import PhaseSample
from runlog.streams.compact import CompactionResult, compact_cell
from runlog.streams.inventory import take_inventory
from workloads.members.transcribe import transcribe_cell

QUIET_S: Final = 60  # a run that goes on writes several times a second; while a cluster starts, its brokers do
FILES_LOOKED_AT_MAX: Final = 10_000
Compact = Callable[[Path, str], CompactionResult]
_REASON: Final = "the harness was killed in the middle of this cell"


def recover_run(run_dir: Path) -> list[str]:
    """A line for each thing done; none when the run had ended properly. UsageError while its harness is alive."""
    if not manifest_path(run_dir).is_file():
        return []
    run = read_run_record(run_dir)
    if run.status is not RunStatus.RUNNING:
        return []
    refuse_while_it_goes_on(run_dir, run)
    cells = run_dir / "cells"
    done = (
        [recover_cell(run_dir, path.name, run.t0_monotonic_ns) for path in sorted(cells.iterdir())]
        if cells.is_dir()
        else []
    )
    write_run(run_dir, replace(run, status=RunStatus.KILLED))
    for directory in {half.parent for half in run_dir.rglob(".*.tmp")}:
        remove_halves(directory)
    return [line for line in done if line]


def refuse_while_it_goes_on(run_dir: Path, run: RunRecord) -> None:
    """UsageError. An owner in another container or on another host cannot be seen, but what it writes can."""
    owner = run.owner
    if run.status is not RunStatus.RUNNING or owner is None:
        return  # it has ended, or the manifest does not name its owner
    place = owner.place
    where = "here" if place is None else place.seen_from(here())
    if where == "here" and is_alive(ProcessIdentity(pid=owner.pid, start_ticks=owner.start_ticks)):
        raise UsageError(
            f"{run_dir} is still being written by process {owner.pid}: wait for it, or stop it with Ctrl-C"
        )
    if where == "elsewhere" and place is not None and _quiet_s(run_dir) < QUIET_S:
        raise UsageError(
            f"{run_dir} was written less than {QUIET_S} s ago, by process {owner.pid} on {place.host} "
            f"({place.pid_namespace}), which cannot be seen from here: wait until that run is over"
        )


def _quiet_s(run_dir: Path) -> float:
    """Seconds since anything in it was written."""
    newest = 0.0
    for path in itertools.islice(run_dir.rglob("*"), FILES_LOOKED_AT_MAX):
        with contextlib.suppress(OSError):
            newest = max(newest, path.lstat().st_mtime)
    return time.time() - newest


def recover_cell(run_dir: Path, cell_id: str, t0_monotonic_ns: int | None, compact: Compact = compact_cell) -> str:
    """A line for what was done, empty if the cell had ended."""
    result = compact(run_dir, cell_id)
    try:
        record = read_cell(run_dir, cell_id)
    except (FileNotFoundError, ValueError):
        return ""  # killed before it was written: nothing had been sent
    if record.outcome.ended_us is not None:
        return ""
    if t0_monotonic_ns is not None:
        transcribe_cell(run_dir, cell_id, topic=record.topic.name or "", t0_monotonic_ns=t0_monotonic_ns)
    start_us, end_us = _measured_window(run_dir, cell_id)
    outcome = replace(
        record.outcome,
        status=CellStatus.INTERRUPTED,
        reason=_REASON,
        measure_start_us=record.outcome.measure_start_us if start_us is None else start_us,
        measure_end_us=record.outcome.measure_end_us if end_us is None else end_us,
        producers=result.producers or record.outcome.producers,
    )
    # Under the name of its directory, whatever it calls itself.
    write_cell(run_dir, replace(record, cell_id=cell_id, outcome=outcome, files=take_inventory(run_dir, cell_id)))
    rows = ", ".join(f"{count} rows of {stream}" for stream, count in sorted(result.rows.items())) or "no rows"
    return f"{cell_id}: {rows} recovered; {_REASON}"


def _measured_window(run_dir: Path, cell_id: str) -> tuple[int | None, int | None]:
    """The measured window, from the phases in stats.jsonl. If it had not ended, its end is the last recorded time."""
    start_us = end_us = None
    last_us = 0
    for sample in read_lines(events_path(run_dir, cell_id, "stats"), STATS).records:
        last_us = sample.t_us
        if isinstance(sample, PhaseSample) and sample.value == LoadPhase.MEASURE:
            start_us = last_us
        elif isinstance(sample, PhaseSample) and sample.value == LoadPhase.DRAIN:
            end_us = last_us
    return start_us, last_us if start_us is not None and end_us is None else end_us
