"""What others on the host took from a cell, for the analysis. The rule is that of runlog.quality.noise."""

from __future__ import annotations

from reports.read.model import CellFacts
from runlog.quality.criteria import Criteria
from runlog.quality.noise import disturbance_of, means


def host_noise(facts: CellFacts, *, window_only: bool = False) -> dict[str, float]:
    """Means of the host's samples by name, over the cell or its measured window."""
    return means(facts.cell.samples, facts.cell.window_us() if window_only else None)


def disturbance(facts: CellFacts, criteria: Criteria | None = None) -> str:
    """Why the host was not the cell's own; empty if it was, or if nothing was recorded."""
    return disturbance_of(facts.cell.samples, facts.cell.window_us(), criteria or Criteria())
