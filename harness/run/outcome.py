"""What became of one cell: grows while the cell runs, and stands in cell.json as `outcome`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from runlog.records.cell import OutcomeRecord
from runlog.records.codec import from_document


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Grows while the cell runs; what cell.json gets as `outcome`."""

    status: str = "interrupted"
    reason: str = "the run ended in the middle of this cell"
    started_us: int = 0
    measure_start_us: int | None = None
    measure_end_us: int | None = None
    ended_us: int | None = None
    producers: list[dict[str, Any]] = field(default_factory=list)
    health: dict[str, Any] = field(default_factory=dict)
    effective: dict[str, Any] = field(default_factory=lambda: {"client": {}, "topic": {}, "broker": {}})
    final_read: dict[str, Any] = field(
        default_factory=lambda: {"complete": False, "reason": "not reached", "end_offsets": {}}
    )
    members: dict[str, Any] = field(default_factory=dict)  # of member processes: caught_up, missing, died, deliveries
    copies: dict[str, Any] = field(default_factory=dict)  # the read of the copiers' topic: complete, reason
    anomaly: str = ""  # no_recovery, hang: a failure of the cell that says something of cluster or client
    notes: list[str] = field(default_factory=list)

    @property
    def window_us(self) -> tuple[int, int] | None:
        if self.measure_start_us is None or self.measure_end_us is None:
            return None
        return self.measure_start_us, self.measure_end_us

    def record(self) -> OutcomeRecord:
        """As it is now."""
        return from_document(OutcomeRecord, {name: getattr(self, name) for name in self.__slots__})
