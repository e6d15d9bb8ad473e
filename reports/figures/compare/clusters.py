"""What each cluster of a run shows over all cells, also where a cell has no figure on some of them. Pure.

A cluster's mean over the cells that it has would take their levels for its own shift, and to leave out every cluster
with a gap may leave none. So a cluster's level is its offset in the sweep's fit of configurations and clusters
(reports/figures/sweep/cell_means.py), which is the mean over all cells where nothing is missing. Where that fit cannot
tell clusters apart, the reason is returned. Knows nothing of a second run. Shown by
tests/reports/test_reports_comparison.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from reports.figures.measurements import Measurement
from reports.figures.statistics.variance import FloatArray
from reports.figures.sweep.behaviour import Behaviour
from reports.figures.sweep.cell_means import cell_means
from reports.figures.sweep.observations import Observation

_FIGURE: Final = "figure"
_NO_BEHAVIOUR: Final = Behaviour(**{one.name: None for one in fields(Behaviour)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLevels:
    count: int  # clusters with any figure
    levels: FloatArray  # of ln(value), one a cluster; empty: not known
    unknown: str  # why they are not known, as the rest of a sentence about the run


def cluster_levels(figures: Sequence[tuple[Measurement, float]]) -> ClusterLevels:
    """Of one measure; `figures` are the cells that have it, each with its value (above 0)."""
    clusters_of: dict[str, set[int]] = {}
    for cell, _ in figures:
        clusters_of.setdefault(cell.name, set()).add(cell.fork)
    count = len({cell.fork for cell, _ in figures})
    if count < 2:
        return _unknown(count, "has figures of one cluster alone: how far clusters lie apart cannot be told")
    fit = cell_means([_observation(cell, value) for cell, value in figures], _FIGURE)
    assert fit is not None
    assert fit.forks is not None
    if not len(fit.forks.offsets) or not _are_linked(list(clusters_of.values())):
        return _unknown(count, "has clusters with too few cells in common to be set side by side")
    return ClusterLevels(count=count, levels=float(fit.means.mean()) + fit.forks.offsets, unknown="")


def _unknown(count: int, why: str) -> ClusterLevels:
    return ClusterLevels(count=count, levels=np.zeros(0), unknown=why)


def _are_linked(clusters_of_cells: Sequence[AbstractSet[int]]) -> bool:
    """Whether cells lead from each cluster to every other. Between two groups of clusters without a cell in common no
    fit can tell the clusters' shifts from the cells' levels."""
    reached = set(clusters_of_cells[0])
    rest = list(clusters_of_cells[1:])
    while linked := [own for own in rest if own & reached]:
        rest = [own for own in rest if not own & reached]
        reached.update(*linked)
    return not rest


def _observation(cell: Measurement, value: float) -> Observation:
    """As the fit takes it, which reads configuration, round, cluster and value alone."""
    return Observation(
        cell_id=cell.cell_id, title=cell.title, configuration=(("cell", cell.name),), round=cell.round, baseline=False,
        state=cell.state, reason=cell.reason, values={_FIGURE: value}, log_errors={}, safety="", contract="",
        asked_per_s=None, behaviour=_NO_BEHAVIOUR, fork=cell.fork,
    )  # fmt: skip
