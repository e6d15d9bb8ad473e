"""Whether a sweep cell is worth a second attempt, and putting the first one aside.

On a shared host a neighbour can take the processor away for a second; such a cell says nothing about its configuration.
Steadiness is computed as the report does it, from the run log. Only the steadiness decides, never the figure itself:
to repeat what looks slow would be to choose the result. Shown by tests/harness/test_harness_attempts.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import numpy as np

from reports.criteria import Criteria
from reports.histogram import steady_ratio
from runlog.events import cell_directory
from runlog.parquet import partition_directory, read_stream
from runlog.schema import STREAMS

ATTEMPTS_MAX: Final = 3  # a configuration that is unsteady by nature must not be tried for ever
SLOT_US: Final = 100_000


def unsteady(
    run_dir: Path, cell_id: str, *, acks: str, started_us: int, window_us: tuple[int, int] | None
) -> str | None:
    """Why the cell's figures should not be believed; None when they are steady, or too short to tell."""
    criteria = Criteria()
    if window_us is None or window_us[1] - window_us[0] < criteria.steady_window_us_min:
        return None
    start_us, end_us = window_us
    stream, column = ("recv", "polled_us") if acks == "0" else ("send", "acked_us")
    table = read_stream(run_dir, stream, cell_id)
    times_us = table[column].to_numpy()
    # Slots count from the cell's start, as in the report, or a case near the limit would be judged twice differently.
    first, end = -(-(start_us - started_us) // SLOT_US), (end_us - started_us) // SLOT_US
    slots = (times_us[times_us >= started_us] - started_us) // SLOT_US
    per_slot = np.bincount(slots[slots < end], minlength=end)[first:end]
    ratio = steady_ratio(per_slot.astype(np.float64))
    if ratio is None or ratio >= criteria.steady_ratio_min:
        return None
    return f"unsteady, the slowest third of the window had {ratio:.0%} of the fastest third's rate"


def put_aside(run_dir: Path, cell_id: str, attempt: int) -> None:
    """Keep what the attempt recorded under cells/<id>/attempt-<n>; its rows leave the run log."""
    directory = cell_directory(run_dir, cell_id)
    kept = directory / f"attempt-{attempt}"
    kept.mkdir()
    for path in sorted(directory.iterdir()):
        if path.is_file():
            path.rename(kept / path.name)
    for stream in STREAMS.values():
        shutil.rmtree(partition_directory(run_dir, stream, cell_id), ignore_errors=True)
