"""The CPU that other programs took in a cell's measured window, for the table of trust. Pure.

The same window and the same figures as in the note "disturbed host" and in the generator's table, so that one name has
one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reports.read.cell import Cell
from runlog.quality.noise import FOREIGN_SHARE, STEAL_SHARE, host_values

_NAMES: Final = ((FOREIGN_SHARE, "foreign"), (STEAL_SHARE, "stolen"))


@dataclass(frozen=True, slots=True, kw_only=True)
class HostShare:
    """`mean` sorts: of all cores, other programs and other guests together; None where nothing was recorded."""

    mean: float | None
    words: str  # mean (most) of each that is not 0


def host_share(cell: Cell) -> HostShare:
    found = host_values(cell.samples, cell.window_us())
    told = [(name, found[key]) for key, name in _NAMES if found.get(key)]
    if not told:
        return HostShare(mean=None, words="not recorded")
    return HostShare(
        mean=sum(_mean(values) for _, values in told),
        words=", ".join(f"{name} {_mean(values):.0%} ({max(values):.0%})" for name, values in told if max(values))
        or "none",
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
