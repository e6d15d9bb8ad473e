"""Was the host taken from a cell while it was measured? Stolen and foreign CPU in the measured window. Pure.

Pressure stall is recorded and shown, but does not judge: on a small host the measured processes cause it themselves.
"""

from __future__ import annotations

from collections.abc import Iterable

from reports.criteria import Criteria
from reports.model import CellFacts, Json


def host_noise(facts: CellFacts, *, window_only: bool = False) -> dict[str, float]:
    """Means of the host's samples by name, over the cell or its measured window."""
    return means(facts.cell.stats, facts.cell.window_us() if window_only else None)


def means(stats: Iterable[Json], window_us: tuple[int, int] | None) -> dict[str, float]:
    """The same from the lines of a stats.jsonl."""
    samples: dict[str, list[float]] = {}
    for line in stats:
        values = line.get("values")
        if line.get("source") != "host" or not isinstance(values, dict):
            continue
        if window_us is not None and not window_us[0] <= int(line.get("t_us", -1)) <= window_us[1]:
            continue
        for name, value in values.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                samples.setdefault(str(name), []).append(float(value))
    return {name: round(sum(found) / len(found), 4) for name, found in samples.items()}


def disturbance(facts: CellFacts, criteria: Criteria | None = None) -> str:
    """Why the host was not the cell's own; empty if it was, or if nothing was recorded."""
    return disturbance_of(facts.cell.stats, facts.cell.window_us(), criteria or Criteria())


def disturbance_of(stats: Iterable[Json], window_us: tuple[int, int], criteria: Criteria) -> str:
    """The same from the lines of a stats.jsonl; also asked between two cells, whether to repeat the last one."""
    found = means(stats, window_us)
    foreign, stolen = found.get("foreign_share", 0.0), found.get("steal_share", 0.0)
    reasons = []
    if foreign > criteria.foreign_share_max:
        reasons.append(f"other programs took {foreign:.0%} of all cores")
    if stolen > criteria.steal_share_max:
        reasons.append(f"other guests of the machine took {stolen:.0%}")
    return f"disturbed host: {' and '.join(reasons)} in the measured window" if reasons else ""
