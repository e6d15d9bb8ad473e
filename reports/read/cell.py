"""A run and its cells, as their files describe them. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runlog.records.cell import CellKind, CellRecord
from runlog.records.cluster import ClusterEvent
from runlog.records.fault import FaultLine
from runlog.records.history import HistoryLine
from runlog.records.holes import Hole
from runlog.records.run import RunRecord
from runlog.records.search import SearchRecord
from runlog.records.stats import StatsSample
from runlog.records.wire import WireExchange
from runlog.streams.place import PartsPlace

Json = dict[str, Any]  # one decoded JSON object: its values are as mixed as JSON allows


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell as its files tell it; what is missing is empty, never invented."""

    cell_id: str
    record: CellRecord
    cluster_events: tuple[ClusterEvent, ...] = ()  # in order of time, as fault_lines and history_lines are
    fault_lines: tuple[FaultLine, ...] = ()
    exchanges: tuple[WireExchange, ...] = ()
    samples: tuple[StatsSample, ...] = ()
    history_lines: tuple[HistoryLine, ...] = ()  # Groups and transactions, as clients told them.
    notes: tuple[str, ...] = ()  # what was odd in its files
    holes: tuple[Hole, ...] = ()  # What is missing or unreadable in its documents and lines.
    # `files` of cell.json as it stands: runlog.streams.inventory holds it against the disk and tells what is wrong.
    listed_files: object = None

    @property
    def kind(self) -> CellKind:
        return self.record.kind

    @property
    def title(self) -> str:
        return self.record.title or self.cell_id

    @property
    def is_read_to_end(self) -> bool:
        """Whether the final read saw all of the log. Else what was not found may still be there."""
        return self.record.outcome.final_read.complete

    @property
    def effective_client(self) -> dict[str, str]:
        """What the client says it ran with, over what it was asked to run with."""
        return {**self.record.properties, **self.record.outcome.effective.client}

    def window_us(self) -> tuple[int, int]:
        """Measured window [start, end); an interrupted cell has an empty one at 0."""
        start, end = self.record.outcome.measure_start_us, self.record.outcome.measure_end_us
        return (start, end) if start is not None and end is not None and end > start else (0, 0)

    def span_us(self) -> tuple[int, int]:
        """The time from the cell's start to its end, as far as known. It is at least the measured window."""
        start, end = self.window_us()
        started, ended = self.record.outcome.started_us, self.record.outcome.ended_us
        first = start if started is None else started
        return min(first, start) if end else first, max(end if ended is None else ended, end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    directory: str
    record: RunRecord
    cells: tuple[Cell, ...]
    search: SearchRecord | None = None  # Only a suite that searches a rate has one.
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()  # What the run as a whole has. With one it is no pass.
    analysis_id: str = ""  # The analysis that reads it. All that it writes carries the id.
    stored: PartsPlace | None = None  # where its Parquet lies, if not in the directory
