"""How far the clusters of a sweep lie apart, measure by measure, and in plain words. Pure.

The offset of a cluster is its mean over all configurations, compared with the mean of all clusters. Part of it is noise
of the cells. Analysis of variance removes that part from the scatter between clusters. A negative rest counts as 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from reports.figures.sweep.cell_means import CellMeans
from reports.figures.sweep.observations import BY_NAME, MEASURES
from runlog.records.sweep import ForkScatter


def fork_scatters(means: Mapping[str, CellMeans]) -> tuple[ForkScatter, ...]:
    """The scatter of clusters. None on one cluster, or if clusters cannot be separated from configurations."""
    found = []
    for measure in MEASURES:
        one = means.get(measure.name)
        if one is None or one.forks is None or one.shared is None:
            continue
        variance = max(0.0, one.shared.variance - one.scatter**2 / one.shared.groups)
        found.append(
            ForkScatter(
                measure=measure.name,
                forks=one.forks.count,
                rounds=one.forks.rounds,
                between=math.sqrt(variance),
                within=one.scatter,
                numbers=one.forks.numbers,
                offsets=tuple(math.expm1(float(offset)) for offset in one.forks.offsets),
            )
        )
    return tuple(found)


def words(scatter: ForkScatter) -> str:
    """One sentence for the page."""
    offsets = ", ".join(f"{offset:+.1%}" for offset in scatter.offsets)
    title = BY_NAME[scatter.measure].title
    if scatter.between == 0:
        text = f"{title}: no more than cells scatter anyway ({scatter.within:.1%})"
    else:
        text = f"{title}: {scatter.between:.1%} from cluster to cluster, beside {scatter.within:.1%} within one"
    return f"{text}; the {scatter.forks} clusters against their mean: {offsets}"


def how_many_clusters(means: Mapping[str, CellMeans], *, on_jvm: bool) -> str:
    """What the intervals are made of, in one sentence."""
    forks = next((one.forks for one in means.values() if one.forks is not None), None)
    if forks is None:
        return (
            "All cells ran on one cluster: every interval holds the scatter of that cluster alone, and another one "
            f"({'another life of the JVMs' if on_jvm else 'other processes'}) may differ by more. With "
            "sweep.forks: 2 or more they hold the scatter of clusters too."
        )
    each = "one round" if forks.rounds == 1 else f"{forks.rounds} rounds"
    return (
        f"The rounds ran on {forks.count} clusters, {each} on each, started anew: intervals count clusters, not "
        "cells. Between configurations they hold what scatters within clusters, since a cluster is the same for all of "
        "them; a level holds the scatter of clusters too."
    )
