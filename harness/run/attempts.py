"""Whether a sweep cell is worth a second attempt, and putting the earlier attempt aside.

On a shared host a neighbour can take the processor for a second. Such a cell does not show its configuration. The
samples of the host, and the steadiness, are computed in the same way as in the report. Only they decide, never the
measured figure: to repeat what looks slow would be to choose the result. On a host that is always busy every cell is
disturbed, and repeating all of them would only take longer. So the time for repeats is limited for the whole run. It
counts by the clock and not by the plan, because repeated cells take longer on such a host too. After that, cells stay
as they are and are marked. Shown by tests/harness/test_harness_attempts.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from runlog.files.paths import cell_directory, events_path
from runlog.quality.criteria import Criteria
from runlog.quality.noise import disturbance_of, others_share
from runlog.quality.steadiness import CHANGING_KINDS, CLOSED, CONSTANT, backlog_reason, backlog_share, steady_ratio
from runlog.records.lines import STATS, read_lines
from runlog.streams.parquet import partition_directory, read_stream
from runlog.streams.schema import STREAMS

ATTEMPTS_MAX: Final = 3  # a configuration that is unsteady by nature must not be tried for ever
SLOT_US: Final = 100_000


class RepeatAllowance:
    """How much longer a run may take because of repeated cells. If repeats are allowed, one cell of planned length
    always fits."""

    def __init__(self, planned_ms: Sequence[int], share: float) -> None:
        """`share` of the planned time; 0: nothing is repeated."""
        self.whole_ms = max(share * sum(planned_ms), float(max(planned_ms, default=0))) if share > 0 else 0.0
        self.used_ms = 0.0

    def has_room_for(self, cell_ms: float) -> bool:
        """Whether a cell of this length may be repeated. The caller reports with `use` how long it really took."""
        return 0 < cell_ms <= self.whole_ms - self.used_ms

    def use(self, took_ms: float) -> None:
        self.used_ms += took_ms

    def words(self) -> str:
        """How much time for repeats is used, in brackets, for the end of a sentence. Empty if nothing is ever
        repeated."""
        if not self.whole_ms:
            return ""
        return f" ({self.used_ms / 1000:.0f} of at most {self.whole_ms / 1000:.0f} s for repeats are used)"


def why_again(
    run_dir: Path,
    cell_id: str,
    *,
    acks: str,
    started_us: int,
    window_us: tuple[int, int] | None,
    schedule_kind: str = CONSTANT,
) -> str | None:
    """Why the cell is worth being run once more; None if its figures stand."""
    why = unsteady(run_dir, cell_id, acks=acks, started_us=started_us, window_us=window_us, schedule_kind=schedule_kind)
    if why is not None:
        return why
    is_asked = acks != "0" and schedule_kind != CLOSED
    return (backlog(run_dir, cell_id, window_us) if is_asked else None) or disturbed(run_dir, cell_id, window_us)


class DisturbedCells:
    """Cells that the host disturbed and that stay: the first is told as it is, the others by a count at the end. On a
    host that is always busy a line for each would bury the progress."""

    def __init__(self) -> None:
        self._cells = 0
        self._shares: list[float] = []

    def ended(self, run_dir: Path, cell_id: str, window_us: tuple[int, int] | None) -> str:
        """A line to say now; empty if there is none."""
        self._cells += 1
        path = events_path(run_dir, cell_id, "stats")
        if window_us is None or not path.exists():
            return ""
        samples = read_lines(path, STATS).records
        why = disturbance_of(samples, window_us, Criteria())
        if not why:
            return ""
        self._shares.append(others_share(samples, window_us))
        return f"{cell_id}: {why}; it stays and is marked" if len(self._shares) == 1 else ""

    def words(self) -> str:
        """A line about all disturbed cells. It is empty if the line of the first cell said everything."""
        if len(self._shares) < 2:
            return ""
        low, high = f"{min(self._shares):.0%}", f"{max(self._shares):.0%}"
        share = low if low == high else f"{low} to {high}"
        return (
            f"{len(self._shares)} of {self._cells} cells were disturbed by the host: others took {share} of all cores"
        )


def disturbed(run_dir: Path, cell_id: str, window_us: tuple[int, int] | None) -> str | None:
    """How other programs took the host from the cell while it was measured. None if they did not."""
    path = events_path(run_dir, cell_id, "stats")
    if window_us is None or not path.exists():
        return None
    return disturbance_of(read_lines(path, STATS).records, window_us, Criteria()) or None


def backlog(run_dir: Path, cell_id: str, window_us: tuple[int, int] | None) -> str | None:
    """How much the window had to work off from the warm-up; None if little, or if the window is too short to tell."""
    criteria = Criteria()
    if window_us is None or window_us[1] - window_us[0] < criteria.steady_window_us_min:
        return None
    send = read_stream(run_dir, "send", cell_id)
    intended_us, acked_us = send["intended_us"].to_numpy(), send["acked_us"].to_numpy()
    is_acked = send["status"].to_numpy() == 0

    def inside(times_us: npt.NDArray[np.int64]) -> int:
        return int(((times_us >= window_us[0]) & (times_us < window_us[1])).sum())

    share = backlog_share(inside(acked_us[is_acked]), inside(intended_us))
    return backlog_reason(share, criteria.backlog_share_max) or None


def unsteady(
    run_dir: Path,
    cell_id: str,
    *,
    acks: str,
    started_us: int,
    window_us: tuple[int, int] | None,
    schedule_kind: str = CONSTANT,
) -> str | None:
    """Why the cell's figures should not be believed; None when they are steady, or too short to tell."""
    criteria = Criteria()
    if window_us is None or window_us[1] - window_us[0] < criteria.steady_window_us_min:
        return None
    start_us, end_us = window_us
    stream, column = ("recv", "polled_us") if acks == "0" else ("send", "acked_us")
    # Slots count from the cell's start, as in the report. Otherwise a case near the limit could be judged differently
    # in the two places.
    first, end = -(-(start_us - started_us) // SLOT_US), (end_us - started_us) // SLOT_US

    def per_slot(stream: str, column: str) -> npt.NDArray[np.float64]:
        times_us = read_stream(run_dir, stream, cell_id)[column].to_numpy()
        slots = (times_us[times_us >= started_us] - started_us) // SLOT_US
        return np.bincount(slots[slots < end], minlength=end)[first:end].astype(np.float64)

    changes = schedule_kind in CHANGING_KINDS
    ratio = steady_ratio(per_slot(stream, column), per_slot("send", "intended_us") if changes else None)
    if ratio is None or ratio >= criteria.steady_ratio_min:
        return None
    of = "rate, of what was due" if changes else "rate"
    return f"unsteady, the slowest third of the window had {ratio:.0%} of the fastest third's {of}"


def put_aside(run_dir: Path, cell_id: str, attempt: int) -> None:
    """Keep everything that the attempt left, its members' journals too, under cells/<id>/attempt-<n>. Its rows are
    removed from the run log."""
    directory = cell_directory(run_dir, cell_id)
    kept = directory / f"attempt-{attempt}"
    kept.mkdir()
    for path in sorted(directory.iterdir()):
        if not path.name.startswith("attempt-"):
            path.rename(kept / path.name)
    for stream in STREAMS.values():
        shutil.rmtree(partition_directory(run_dir, stream, cell_id), ignore_errors=True)
