"""Which figures of a sweep show something about its configurations. Pure.

If every cell carried the rate that was asked for, throughput is that rate. A chart or a front of it would show only
noise. If each configuration has a ceiling, its capacity is what it can carry, so throughput is not needed either. A
cell that fell short of the rate has a warning. The tables keep the figure.

Shown by tests/reports/test_reports_telling.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from reports.figures.sweep.observations import CAPACITY, MEASURES, NOT_SUSTAINED, THROUGHPUT, Observation


def carried_all(observations: Sequence[Observation]) -> bool:
    """Whether each cell that has a rate carried the one that was asked for."""
    measured = [item for item in observations if THROUGHPUT in item.values]
    return bool(measured) and all(item.asked_per_s and item.state != NOT_SUSTAINED for item in measured)


def telling(observations: Sequence[Observation]) -> tuple[str, ...]:
    """Names of the measures in which configurations can differ."""
    return tuple(one.name for one in MEASURES if one.name != THROUGHPUT or throughput_tells(observations))


def throughput_tells(observations: Sequence[Observation]) -> bool:
    """Whether the rates of paced cells say how fast a configuration is."""
    return not carried_all(observations) and not any(CAPACITY in item.values for item in observations)
