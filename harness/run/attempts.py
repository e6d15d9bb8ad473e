"""Whether a sweep cell is worth a second attempt, and putting the earlier attempt aside.

On a shared host a neighbour can take the processor for a second. Such a cell does not show its configuration. What the
host's own samples say decides, in the same way as in the report, and nothing that the system under test can cause: to
repeat what was slow or unsteady would be to choose the result. A stall that cannot be told from one of the brokers
counts. On a host that is always busy every cell is
disturbed, and repeating all of them would only take longer. So the time for repeats is limited for the whole run. It
counts by the clock and not by the plan, because repeated cells take longer on such a host too. After that, cells stay
as they are and are marked. Shown by tests/harness/test_harness_attempts.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from runlog.files.paths import cell_directory, events_path
from runlog.quality.noise import disturbance_of, others_share
from runlog.records.lines import STATS, read_lines
from runlog.streams.parquet import partition_directory
from runlog.streams.schema import STREAMS

ATTEMPTS_MAX: Final = 3  # a configuration that is unsteady by nature must not be tried for ever
ROWS: Final = "rows"  # below the attempt: a directory for each stream


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
        why = disturbance_of(samples, window_us)
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
    return disturbance_of(read_lines(path, STATS).records, window_us) or None


def put_aside(run_dir: Path, cell_id: str, attempt: int) -> None:
    """Keep everything that the attempt left, its members' journals and its rows of the run log too, under
    cells/<id>/attempt-<n>. Its rows are no part of the run log any more, and stay where who doubts a choice can read
    them."""
    directory = cell_directory(run_dir, cell_id)
    kept = directory / f"attempt-{attempt}"
    kept.mkdir()
    for path in sorted(directory.iterdir()):
        if not path.name.startswith("attempt-"):
            path.rename(kept / path.name)
    for stream in STREAMS.values():
        rows = partition_directory(run_dir, stream, cell_id)
        if rows.exists():
            (kept / ROWS).mkdir(exist_ok=True)
            rows.rename(kept / ROWS / stream.name)
