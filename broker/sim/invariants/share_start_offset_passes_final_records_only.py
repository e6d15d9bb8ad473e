from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class ShareStartOffsetPassesFinalRecordsOnly(Invariant):
    """The start offset of a share partition never moves back, and passes only records that are acknowledged, archived,
    no longer in the log, or never delivered (markers of transactions)."""

    NAME = "the start offset passes final records only"
    GROUP = Group.SHARES

    def moved(self, where: str, start_offset: int, *, before: int, open_offset: int | None) -> None:
        """`open_offset`: a record between both that is not final, None if there is none."""
        if start_offset < before:
            self.violated(f"{where}: the start offset moved from {before} back to {start_offset}")
        elif open_offset is not None:
            self.violated(f"{where}: the start offset moved from {before} to {start_offset} over {open_offset}")
