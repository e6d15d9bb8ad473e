"""What a cell asks of the faults: begin with the measured window, finish before the final read.

The timeline itself is chaos'; timeline_driver.py joins the two.
"""

from __future__ import annotations

from typing import Protocol


class ChaosDriver(Protocol):
    @property
    def problem(self) -> str: ...

    def begin(self) -> None:
        """The measured window starts now: run the timeline in a thread of its own."""

    def finish(self, *, interrupted: bool) -> None:
        """Wait for the timeline (or cut it short) and heal everything. Bounded; may be called again."""
