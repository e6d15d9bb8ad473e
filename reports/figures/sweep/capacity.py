"""Which cells have a capacity: the rate that a configuration reached at its ceiling. Pure.

A configuration has two cells in each repetition: one at the sweep's rate and one at the ceiling. For a reader they are
one row, so the capacity stands with both. Shown by tests/reports/test_reports_capacity.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reports.figures.sweep.observations import CAPACITY, Observation


def capacities(observations: Sequence[Observation]) -> Mapping[str, float]:
    """Records a second by the cell's id. A cell whose load generator was the limit has none."""
    found = {
        (item.configuration, item.repetition): item.values[CAPACITY] for item in observations if CAPACITY in item.values
    }
    return {
        item.cell_id: found[item.configuration, item.repetition]
        for item in observations
        if (item.configuration, item.repetition) in found
    }


def is_measured(observations: Sequence[Observation]) -> bool:
    """Whether the sweep went for the ceilings at all."""
    return any(item.at_ceiling for item in observations)
