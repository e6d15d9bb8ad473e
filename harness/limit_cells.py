"""Which limits of a suite hold for which cell. Pure.

A limit without `cells` holds for every cell but the tries of a rate search and the ceilings of a sweep, which go too
far on purpose. One that compares with the baseline holds for the other cells of the sweep. Shown by
tests/harness/test_harness_limits.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final, Protocol

from harness.errors import UsageError
from harness.suite import LimitEntry, Suite
from harness.suite_source import nearest
from reports.judge.limit_figures import RUN_FIGURES
from reports.judge.limit_grammar import TRY_PREFIX, parse_limit
from runlog.records.run import RunLimitRecord

_OF_SEARCH: Final = "search-"  # its cells are planned while it runs


class CellIdentity(Protocol):
    """What a limit is chosen by."""

    @property
    def cell_id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def baseline(self) -> bool: ...


def limits_of(suite: Suite, cell: CellIdentity) -> tuple[str, ...]:
    """Those by which the cell is judged alone."""
    own = [entry for entry in suite.limits if parse_limit(entry.limit).is_of_cell]
    return tuple(dict.fromkeys(entry.limit for entry in own if _is_of(entry, cell)))


def run_limits_of(suite: Suite) -> tuple[RunLimitRecord, ...]:
    """Those by which several cells are judged together, or the run."""
    return tuple(
        RunLimitRecord(limit=entry.limit, cells=tuple(entry.cells))
        for entry in suite.limits
        if not parse_limit(entry.limit).is_of_cell
    )


def _is_of(entry: LimitEntry, cell: CellIdentity) -> bool:
    if entry.is_relative and (cell.kind != "sweep" or cell.baseline):
        return False
    if not entry.cells:
        return not cell.cell_id.startswith(TRY_PREFIX) and cell.kind != "ceiling"
    return any(fnmatchcase(cell.cell_id, pattern) for pattern in entry.cells)


def check_limits(suite: Suite, cells: Sequence[CellIdentity]) -> None:
    """UsageError for a pattern that names no cell, and for a comparison without a baseline."""
    ids = [cell.cell_id for cell in cells]
    for index, entry in enumerate(suite.limits):
        place = f"{suite.source.place_of(('limits', index))}: " if suite.source is not None else ""
        head = f"{place}limits.{index}: {entry.limit}"
        for pattern in entry.cells:
            is_of_search = suite.search is not None and pattern.startswith(_OF_SEARCH)
            if not is_of_search and not any(fnmatchcase(one, pattern) for one in ids):
                raise UsageError(f"{head}: no cell is named {pattern!r}{nearest(pattern, ids)}")
        if parse_limit(entry.limit).figure.name in RUN_FIGURES:
            if suite.search is None:
                raise UsageError(f"{head}: the suite has no search that could find a rate")
            if entry.cells:
                raise UsageError(f"{head}: it is about the run itself: leave `cells` out")
        if not entry.is_relative:
            continue
        if not any(cell.kind == "sweep" and cell.baseline for cell in cells):
            raise UsageError(f"{head}: there is no baseline to compare with: the suite has no sweep that holds one")
        if not any(_is_of(entry, cell) for cell in cells):
            raise UsageError(f"{head}: it holds for no cell: only sweep cells beside the baseline have a baseline")
