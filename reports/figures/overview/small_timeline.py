"""The small time line of a cell: acknowledged records a second with the faults as bands. Pure.

It shows only the shape. The cell's page has the figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reports.figures.over_time import OverTime, rate_top

POINTS_MAX: Final = 96  # a small picture shows no more


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A fault; both ends are shares of the time line's length."""

    start: float
    end: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallTimeline:
    """`rates` are records a second in equal steps over `seconds`; `top` is the largest of them, and above 0."""

    seconds: float
    rates: tuple[float, ...]
    top: float
    bands: tuple[Band, ...]


def small_timeline(own: OverTime) -> SmallTimeline | None:
    """The small time line. None if nothing was acknowledged, or if the cell has too few slots for a line."""
    acked = [(rate.t, float(rate.rate)) for rate in own.rates if rate.series == "acked"]
    asked = {rate.t: rate.rate for rate in own.rates if rate.series == "asked"}
    # After the last record the cell heals and is read back: nothing is due, so a flat line would have no meaning.
    busy = [place for place, (t, rate) in enumerate(acked) if rate > 0 or asked.get(t, 0) > 0]
    if len(busy) < 2:
        return None
    shown = acked[: busy[-1] + 1]
    step = shown[1][0] - shown[0][0]
    seconds = shown[-1][0] + step
    end = rate_top(max(asked.values(), default=0))
    rates = _thinned([min(rate, end) for _, rate in shown])
    top = max(rates)
    if top <= 0 or seconds <= 0:
        return None
    bands = tuple(
        Band(start=fault.t / seconds, end=min(1.0, fault.t_end / seconds), label=fault.label)
        for fault in own.faults
        if fault.t < seconds
    )
    return SmallTimeline(seconds=seconds, rates=rates, top=top, bands=bands)


def _thinned(rates: Sequence[float]) -> tuple[float, ...]:
    """Means of as many neighbours as it takes."""
    width = -(-len(rates) // POINTS_MAX)
    parts = [rates[start : start + width] for start in range(0, len(rates), width)]
    return tuple(sum(part) / len(part) for part in parts)
