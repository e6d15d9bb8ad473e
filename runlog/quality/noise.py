"""Whether other programs disturbed a cell: stolen and foreign CPU in the measured window. Pure.

Pressure stall is recorded and shown, but does not judge: on a small host the measured processes cause it themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from runlog.quality.criteria import Criteria
from runlog.records.stats import HOST, HostFigure, Resources, StatsSample

FOREIGN_SHARE: Final = HostFigure.FOREIGN_SHARE
STEAL_SHARE: Final = HostFigure.STEAL_SHARE
DISTURBED: Final = "disturbed host"  # how the reason begins


def means(samples: Iterable[StatsSample], window_us: tuple[int, int] | None) -> dict[str, float]:
    """Means of the host's samples by name; with a window only of those in it."""
    return {name: round(sum(found) / len(found), 4) for name, found in host_values(samples, window_us).items()}


def host_values(samples: Iterable[StatsSample], window_us: tuple[int, int] | None) -> dict[str, list[float]]:
    """What the host sampler saw, by name and in order of time; no name without a value."""
    found: dict[str, list[float]] = {}
    for sample in samples:
        if not isinstance(sample, Resources) or sample.source != HOST:
            continue
        if window_us is not None and not window_us[0] <= sample.t_us <= window_us[1]:
            continue
        for name, value in sample.values.items():
            found.setdefault(name, []).append(float(value))
    return found


def others_share(samples: Iterable[StatsSample], window_us: tuple[int, int]) -> float:
    """The share of all cores in the window that other programs and guests took. 0 if nothing was recorded."""
    found = means(samples, window_us)
    return found.get(FOREIGN_SHARE, 0.0) + found.get(STEAL_SHARE, 0.0)


def disturbance_of(samples: Iterable[StatsSample], window_us: tuple[int, int], criteria: Criteria) -> str:
    """Why the host was not the cell's own; empty if it was, or if nothing was recorded.

    Also asked between two cells, whether to repeat the last one.
    """
    found = means(samples, window_us)
    foreign, stolen = found.get(FOREIGN_SHARE, 0.0), found.get(STEAL_SHARE, 0.0)
    reasons = []
    if foreign > criteria.foreign_share_max:
        reasons.append(f"other programs took {foreign:.0%} of all cores")
    if stolen > criteria.steal_share_max:
        reasons.append(f"other guests of the machine took {stolen:.0%}")
    return f"{DISTURBED}: {' and '.join(reasons)} in the measured window" if reasons else ""
