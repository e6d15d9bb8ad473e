"""Recovers a run whose harness could not complete its cells: writes Parquet from what its load processes wrote, and
completes its documents.

The harness compacts each cell when it ends. After a SIGKILL, a lost machine or a full disk, this module does it.
`harness report` calls this first. It changes nothing in a cell that is complete, whatever became of the run, and
refuses a run that is still going on. What cannot be recovered stays as it is and is told; the analysis then finds it
missing. Shown by tests/harness/test_harness_recover.py and test_harness_interrupt.py."""

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
from harness.run.directory.reserved_space import give_room
from runlog.files.documents import remove_halves
from runlog.files.paths import events_path, live_directory, manifest_path
from runlog.files.place import here
from runlog.records.cell import CellRecord, CellStatus, FilesRecord
from runlog.records.documents import read_cell, read_run_record, write_cell, write_run
from runlog.records.lines import STATS, read_lines
from runlog.records.load import LoadPhase
from runlog.records.run import RunRecord, RunStatus
from runlog.records.stats import PhaseSample
from runlog.streams.compact import CompactionResult, compact_cell, has_segments
from runlog.streams.inventory import INVENTORY_SINCE, take_inventory
from runlog.streams.schema import RECV, SEND
from workloads.members.transcribe import transcribe_cell

QUIET_S: Final = 60  # a run that goes on writes several times a second; while a cluster starts, its brokers do
FILES_LOOKED_AT_MAX: Final = 10_000
Compact = Callable[[Path, str], CompactionResult]
_KILLED: Final = "the harness was killed in the middle of this cell"
_NOT_COMPLETED: Final = "the harness ended before it had completed this cell"


def recover_run(run_dir: Path) -> list[str]:
    """A line for each thing done, and for each that could not be done; none when the run is complete. UsageError while
    its harness is alive."""
    if not manifest_path(run_dir).is_file():
        return []
    run = read_run_record(run_dir)
    refuse_while_it_goes_on(run_dir, run)
    was_killed = run.status in (RunStatus.RUNNING, RunStatus.KILLED)
    cells = sorted(path.name for path in (run_dir / "cells").glob("*"))
    done = [
        _try_to_recover(run_dir, cell_id, run.t0_monotonic_ns, _KILLED if was_killed else _NOT_COMPLETED)
        for cell_id in cells
        if run.status is RunStatus.RUNNING or _is_incomplete(run_dir, cell_id, has_lists=_has_lists(run))
    ]
    if run.status is RunStatus.RUNNING:
        write_run(run_dir, replace(run, status=RunStatus.KILLED))
        give_room(run_dir)
        for directory in {half.parent for half in run_dir.rglob(".*.tmp")}:
            remove_halves(directory)
    return [line for line in done if line]


def _has_lists(run: RunRecord) -> bool:
    """Whether a cell of this run lists its files once it is complete."""
    return run.schema_version is not None and run.schema_version >= INVENTORY_SINCE


def _is_incomplete(run_dir: Path, cell_id: str, *, has_lists: bool) -> bool:
    """A disk that was full, for one, left segments, or a cell without its last documents."""
    if has_segments(live_directory(run_dir, cell_id)):
        return True
    try:
        record = read_cell(run_dir, cell_id)
    except (FileNotFoundError, ValueError):
        return False
    return has_lists and record.outcome.ended_us is None and record.files is None


def _try_to_recover(run_dir: Path, cell_id: str, t0_monotonic_ns: int | None, why: str) -> str:
    try:
        return recover_cell(run_dir, cell_id, t0_monotonic_ns, why=why)
    except (OSError, ValueError) as error:  # no space, a damaged segment, or Parquet that has more
        where = live_directory(run_dir, cell_id).relative_to(run_dir)
        return f"{cell_id}: not recovered: {error}; its run log stays in {where}, and its verdict cannot count on it"


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


def recover_cell(
    run_dir: Path, cell_id: str, t0_monotonic_ns: int | None, compact: Compact = compact_cell, why: str = _KILLED
) -> str:
    """A line for what was done, empty if the cell was complete. OSError and ValueError say why it cannot be done; it
    may be tried again."""
    result = compact(run_dir, cell_id)
    try:
        record = read_cell(run_dir, cell_id)
    except (FileNotFoundError, ValueError):
        return ""  # killed before it was written: nothing had been sent
    rows = ", ".join(f"{count} rows of {stream}" for stream, count in sorted(result.rows.items())) or "no rows"
    if record.outcome.ended_us is not None:
        if not result.rows:
            return ""
        write_cell(run_dir, replace(record, cell_id=cell_id, files=_with_rows_of_load(run_dir, cell_id, record)))
        return f"{cell_id}: {rows} recovered; {why}"
    if t0_monotonic_ns is not None:
        transcribe_cell(run_dir, cell_id, topic=record.topic.name or "", t0_monotonic_ns=t0_monotonic_ns)
    start_us, end_us = _measured_window(run_dir, cell_id)
    outcome = replace(
        record.outcome,
        status=CellStatus.INTERRUPTED,
        reason=why,
        measure_start_us=record.outcome.measure_start_us if start_us is None else start_us,
        measure_end_us=record.outcome.measure_end_us if end_us is None else end_us,
        producers=result.producers or record.outcome.producers,
    )
    # Under the name of its directory, whatever it calls itself.
    write_cell(run_dir, replace(record, cell_id=cell_id, outcome=outcome, files=take_inventory(run_dir, cell_id)))
    return f"{cell_id}: {rows} recovered; {why}"


def _with_rows_of_load(run_dir: Path, cell_id: str, record: CellRecord) -> FilesRecord:
    """The list of the cell's files with what was compacted now. Other entries stay: they say what must be there."""
    found = take_inventory(run_dir, cell_id)
    if record.files is None:
        return found
    made = {stream.name: found.streams[stream.name] for stream in (SEND, RECV)}
    return replace(record.files, streams={**record.files.streams, **made})


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
