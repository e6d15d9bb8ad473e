"""The outcome of one cell while it runs: the record that cell.json gets as `outcome`, changed step by step."""

from __future__ import annotations

from dataclasses import replace

from harness.errors import is_full
from runlog.records.cell import CellAnomaly, CellStatus, OutcomeRecord, not_begun
from runlog.records.holes import Hole, HoleKind
from runlog.records.hosts import HostState


def is_carried_out(outcome: OutcomeRecord) -> bool:
    """Whether a cell came to its end with the whole of its load. Otherwise it is inconclusive in any case."""
    return outcome.status is CellStatus.DONE and all(host.state is HostState.DONE for host in outcome.load_hosts)


class Outcome:
    """Shared by those who carry out one cell, on the thread of the run. `record` is what is known now."""

    def __init__(self, started_us: int) -> None:
        self.record: OutcomeRecord = replace(not_begun(), started_us=started_us)
        self.full_disk = ""  # what could not be written, because a disk of ours is full

    def note(self, *texts: str) -> None:
        """What was unusual. No verdict rests on it."""
        self.record = replace(self.record, notes=(*self.record.notes, *texts))

    def miss(self, kind: HoleKind, *whats: str, where: str = "") -> None:
        """A hole for each of `whats`. What rests on evidence of this kind will be inconclusive."""
        found = tuple(Hole(kind=kind, what=what, where=where) for what in whats)
        self.record = replace(self.record, holes=(*(self.record.holes or ()), *found))

    def end(self, status: CellStatus, reason: str, anomaly: CellAnomaly | None = None) -> None:
        """An anomaly that was told before stays, where there is no other."""
        kept = self.record.anomaly if anomaly is None else anomaly
        self.record = replace(self.record, status=status, reason=reason, anomaly=kept)

    def blame_us(self, why: str) -> None:
        """What we did is not the cluster's fault, nor the client's: an anomaly that may come from it is none. The cell
        is inconclusive, and `why` is told first."""
        if self.record.anomaly is not CellAnomaly.NONE:
            self.record = replace(self.record, anomaly=CellAnomaly.NONE, reason=f"{why}; then {self.record.reason}")

    def fail_to_write(self, error: BaseException) -> None:
        """Something of ours could not be done. If a disk was full, `full_disk` says so from now on."""
        if is_full(error) and not self.full_disk:
            self.full_disk = str(error)

    def spoil(self, why: str) -> None:
        """What spoilt the cell is ours, however the cell ended: it is inconclusive, `why` is told first, and an anomaly
        that may come from it is none. A cell that a signal ended stays one."""
        record = self.record
        if record.status is not CellStatus.INTERRUPTED:
            reason = f"{why}; then {record.reason}" if record.reason else why
            self.record = replace(record, status=CellStatus.FAILED, anomaly=CellAnomaly.NONE, reason=reason)
