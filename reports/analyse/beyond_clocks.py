"""End-to-end latencies between two load hosts, as far as their clocks allow. A latency that is not above the bound is
left out.

A latency of 3 ms that can be wrong by 5 ms may be anything from 0 to 8 ms. Such a figure is not shown.
Pure. Shown by tests/reports/test_reports_beyond_clocks.py.
"""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from reports.read.model import END_TO_END, Latency
from runlog.records.load import StageFigures


def latency_beyond(latency: Latency, error_us: float) -> Latency:
    """The latency without figures that are not above `error_us`. All stay if it is 0."""
    if not error_us:
        return latency

    def shown(us: float | None) -> bool:
        return us is not None and us > error_us

    figures = {**latency.quantiles, "max": latency.max_us, "mean": latency.mean_us}
    return replace(
        latency,
        quantiles={name: us if shown(us) else None for name, us in latency.quantiles.items()},
        max_us=latency.max_us if shown(latency.max_us) else None,
        mean_us=latency.mean_us if shown(latency.mean_us) else None,
        p99_interval_us=latency.p99_interval_us if shown(latency.p99_us) else None,
        spectrum=tuple(point for point in latency.spectrum if shown(point[1])),
        curve=tuple(point for point in latency.curve if shown(point[1])),
        beyond_clocks=frozenset(name for name, us in figures.items() if us is not None and not shown(us)),
    )


def slots_beyond(slots: pd.DataFrame, error_us: float) -> pd.DataFrame:
    """The same over time. Columns that are not end to end stay as they are."""
    columns = [str(name) for name in slots.columns if str(name).startswith(END_TO_END)]
    if not error_us or not columns:
        return slots
    shown = slots.copy()
    shown[columns] = slots[columns].where(slots[columns] > error_us)
    return shown


def stage_beyond(stage: StageFigures | None, error_us: float) -> StageFigures | None:
    """The same of a stage that begins with a producer and ends with a reader, as the load processes counted it."""
    if stage is None or not error_us:
        return stage

    def shown(us: float | None) -> float | None:
        return us if us is not None and us > error_us else None

    return replace(
        stage, mean_us=shown(stage.mean_us), p50_us=shown(stage.p50_us), p90_us=shown(stage.p90_us),
        p99_us=shown(stage.p99_us), p999_us=shown(stage.p999_us), max_us=shown(stage.max_us),
    )  # fmt: skip
