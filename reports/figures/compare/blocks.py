"""The level of each block of a run over all cells, even if a cell has no figure in some blocks. Pure.

A block is a group of cells that shift together: one cluster of a sweep on several clusters, or else one round of
repetitions. Two simple ways fail when a cell is missing. The mean over the cells of a block would mistake their levels
for a shift of the block. Leaving out every block with a gap may leave none. So the level of a block is its offset in
the sweep's fit of configurations and clusters (reports/figures/sweep/cell_means.py). If nothing is missing, that is the
mean over all cells. If the fit cannot separate the blocks, the reason is returned. Knows nothing of a second run. Shown
by tests/reports/test_reports_comparison.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from reports.figures.statistics.variance import FloatArray
from reports.figures.sweep.cell_means import cell_means
from reports.figures.sweep.observations import Observation
from runlog.records.measurements import Measurement
from runlog.records.sweep import Behaviour

_FIGURE: Final = "figure"
_NO_BEHAVIOUR: Final = Behaviour(**{one.name: None for one in fields(Behaviour)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """What kind of block a comparison takes."""

    name: str  # plural
    number_of: Callable[[Measurement], int]
    why_one_is_too_few: str  # as the rest of a sentence about the run


CLUSTERS: Final = Blocks(
    name="clusters",
    number_of=lambda cell: cell.fork,
    why_one_is_too_few="has figures of one cluster alone: how far clusters lie apart cannot be told",
)
ROUNDS: Final = Blocks(
    name="rounds",
    number_of=lambda cell: cell.round,
    why_one_is_too_few="ran each cell once: how far the next run lies apart cannot be told",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockLevels:
    count: int  # blocks with any figure
    levels: FloatArray  # ln(value), one a block. Empty: not known.
    unknown: str  # why they are not known, as the rest of a sentence about the run


def blocks_of(cells: Sequence[Sequence[Measurement]]) -> Blocks:
    """`cells` are those of each run: clusters where one of the runs had several."""
    return CLUSTERS if any(len({cell.fork for cell in run}) > 1 for run in cells) else ROUNDS


def block_levels(figures: Sequence[tuple[Measurement, float]], blocks: Blocks) -> BlockLevels:
    """The levels of one measure. `figures` are the cells that have it, each with its value (above 0)."""
    blocks_of_cells: dict[str, set[int]] = {}
    for cell, _ in figures:
        blocks_of_cells.setdefault(cell.name, set()).add(blocks.number_of(cell))
    count = len(set().union(*blocks_of_cells.values()))
    if count < 2:
        return _unknown(count, blocks.why_one_is_too_few)
    fit = cell_means([_observation(cell, value, blocks.number_of(cell)) for cell, value in figures], _FIGURE)
    assert fit is not None
    assert fit.forks is not None
    if not len(fit.forks.offsets) or not _are_linked(list(blocks_of_cells.values())):
        return _unknown(count, f"has {blocks.name} with too few cells in common to be set side by side")
    return BlockLevels(count=count, levels=float(fit.means.mean()) + fit.forks.offsets, unknown="")


def _unknown(count: int, why: str) -> BlockLevels:
    return BlockLevels(count=count, levels=np.zeros(0), unknown=why)


def _are_linked(blocks_of_cells: Sequence[AbstractSet[int]]) -> bool:
    """Whether cells lead from each block to every other. Between two groups of blocks without a cell in common no fit
    can tell the blocks' shifts from the cells' levels."""
    reached = set(blocks_of_cells[0])
    rest = list(blocks_of_cells[1:])
    while linked := [own for own in rest if own & reached]:
        rest = [own for own in rest if not own & reached]
        reached.update(*linked)
    return not rest


def _observation(cell: Measurement, value: float, block: int) -> Observation:
    """An observation for the fit, which reads only configuration, round, cluster and value."""
    return Observation(
        cell_id=cell.cell_id, title=cell.title, configuration=(("cell", cell.name),), round=cell.round, baseline=False,
        state=cell.state, reason=cell.reason, values={_FIGURE: value}, log_errors={}, safety="", contract="",
        asked_per_s=None, behaviour=_NO_BEHAVIOUR, fork=block,
    )  # fmt: skip
