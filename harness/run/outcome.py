"""What becomes of one cell, while it runs: the record that cell.json gets as `outcome`, changed step by step."""

from __future__ import annotations

from dataclasses import replace

from runlog.records.cell import (
    CellAnomaly,
    CellStatus,
    CopiesRecord,
    EffectiveSettings,
    FinalReadRecord,
    MembersRecord,
    OutcomeRecord,
)
from runlog.records.load import Health


def begun(started_us: int = 0) -> OutcomeRecord:
    """Of a cell that has just begun: what stands in cell.json if nobody comes to write more."""
    return OutcomeRecord(
        status=CellStatus.INTERRUPTED,
        reason="the run ended in the middle of this cell",
        started_us=started_us,
        measure_start_us=None,
        measure_end_us=None,
        ended_us=None,
        producers=(),
        health=Health(),
        effective=EffectiveSettings(),
        final_read=FinalReadRecord(complete=False, reason="not reached", end_offsets={}),
        members=MembersRecord(),
        copies=CopiesRecord(),
        anomaly=CellAnomaly.NONE,
        notes=(),
    )


class Outcome:
    """Shared by those who carry out one cell, on the thread of the run. `record` is what is known now."""

    def __init__(self, started_us: int) -> None:
        self.record = begun(started_us)

    def note(self, *texts: str) -> None:
        self.record = replace(self.record, notes=(*self.record.notes, *texts))

    def end(self, status: CellStatus, reason: str, anomaly: CellAnomaly | None = None) -> None:
        """An anomaly that was told before stays, where there is no other."""
        kept = self.record.anomaly if anomaly is None else anomaly
        self.record = replace(self.record, status=status, reason=reason, anomaly=kept)
