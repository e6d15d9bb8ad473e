"""Slots of made cells, with all the columns that the analysis gives them."""

from __future__ import annotations

import numpy as np
import pandas as pd

_COUNTS = ("intended", "sent", "acked", "received")
_LATENCIES = tuple(
    f"{kind}_{figure}_us"
    for kind in ("corrected", "uncorrected", "end_to_end")
    for figure in ("min", "mean", "p99", "max")
)


def made_slots(end_us: int, slot_us: int, count: float) -> pd.DataFrame:
    """From 0 to `end_us`, with so many records in each; nobody measured their latencies."""
    times = range(0, end_us, slot_us)
    counts, latencies = np.full(len(times), count), np.full(len(times), np.nan)
    return pd.DataFrame({"t_us": times, **dict.fromkeys(_COUNTS, counts), **dict.fromkeys(_LATENCIES, latencies)})
