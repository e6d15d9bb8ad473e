"""The rule by which names of points in a chart keep apart. Pure.

How wide a chart is only the browser knows, so names keep apart in height alone: then they do at every width. A name
stays as near to its point as the others let it, and a thin line leads to it. A name on the right half ends at its
point, because beyond the plot stand other words. Both charts with named points use this: the price of safety
(`price_names.py`) and the durability surface (`sweep/surface_names.py`).
Shown in a browser by tests/reports/test_reports_names_drawn.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

LINE_PX: Final = 13  # height of a line of names


def short_name(title: str) -> str:
    """Without the settings that come with it: the table below has them."""
    return title.split(" (")[0]


def heights_apart(wanted: Sequence[float], gap: float, *, low: float, high: float) -> list[float]:
    """Ascending like `wanted`, a gap apart, within the ends, and with the least sum of squared distances: neighbours
    that want the same place share it around their mean (isotonic regression by pooling)."""
    pools: list[tuple[float, int]] = []  # mean of where its names would begin, how many they are
    for index, height in enumerate(wanted):
        mean, count = height - index * gap, 1
        while pools and pools[-1][0] > mean:
            other, number = pools.pop()
            mean, count = (mean * count + other * number) / (count + number), count + number
        pools.append((mean, count))
    begins = [mean for mean, count in pools for _ in range(count)]
    last = high - (len(wanted) - 1) * gap
    return [min(max(begin, low), last) + index * gap for index, begin in enumerate(begins)]
