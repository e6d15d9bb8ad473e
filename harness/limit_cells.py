"""Which limits of a suite apply to which cell. Wrong limits are reported before anything starts. Pure.

reports/judge/limit_scope.py says what a limit is about. A limit that compares with the baseline applies to the other
cells of the sweep. Shown by tests/harness/test_harness_limits.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from harness.errors import UsageError
from harness.suite import LimitEntry, Suite
from harness.suite_source import nearest
from reports.judge.limit_figures import CAPACITY, RUN_FIGURES
from reports.judge.limit_grammar import Limit, parse_limit
from reports.judge.limit_scope import OF_SWEEP, CellIdentity, is_about
from runlog.records.run import RunLimitRecord

_OF_SEARCH: Final = "search-"  # its cells are planned while it runs


def limits_of(suite: Suite, cell: CellIdentity) -> tuple[str, ...]:
    """The limits by which the cell is judged alone."""
    own = [entry for entry in suite.limits if parse_limit(entry.limit).is_of_cell]
    return tuple(dict.fromkeys(entry.limit for entry in own if _is_of(suite, entry, cell)))


def run_limits_of(suite: Suite) -> tuple[RunLimitRecord, ...]:
    """The limits by which several cells together, or the run, are judged."""
    return tuple(
        RunLimitRecord(limit=entry.limit, cells=tuple(entry.cells))
        for entry in suite.limits
        if not parse_limit(entry.limit).is_of_cell
    )


def _has_ceilings(suite: Suite) -> bool:
    return suite.sweep is not None and suite.sweep.ceiling is not None


def _is_of(suite: Suite, entry: LimitEntry, cell: CellIdentity) -> bool:
    limit = parse_limit(entry.limit)
    if limit.is_relative and (cell.kind not in OF_SWEEP or cell.baseline):
        return False
    return is_about(limit, entry.cells, cell.cell_id, cell.kind, has_ceilings=_has_ceilings(suite))


def check_limits(suite: Suite, cells: Sequence[CellIdentity]) -> None:
    """UsageError for a pattern that names no cell, for a comparison without a baseline, for a capacity without a
    ceiling."""
    ids = [cell.cell_id for cell in cells]
    for index, entry in enumerate(suite.limits):
        place = f"{suite.source.place_of(('limits', index))}: " if suite.source is not None else ""
        head = f"{place}limits.{index}: {entry.limit}"
        for pattern in entry.cells:
            is_of_search = suite.search is not None and pattern.startswith(_OF_SEARCH)
            if not is_of_search and not any(fnmatchcase(one, pattern) for one in ids):
                raise UsageError(f"{head}: no cell is named {pattern!r}{nearest(pattern, ids)}")
        _check_figure(suite, entry, parse_limit(entry.limit), cells, head)
        if not entry.is_relative:
            continue
        if not any(cell.kind in OF_SWEEP and cell.baseline for cell in cells):
            raise UsageError(f"{head}: there is no baseline to compare with: the suite has no sweep that holds one")
        if not any(_is_of(suite, entry, cell) for cell in cells):
            raise UsageError(f"{head}: it holds for no cell: only sweep cells beside the baseline have a baseline")


def _check_figure(suite: Suite, entry: LimitEntry, limit: Limit, cells: Sequence[CellIdentity], head: str) -> None:
    """A figure that the plan cannot show."""
    if limit.figure.name in RUN_FIGURES:
        if suite.search is None:
            raise UsageError(f"{head}: the suite has no search that could find a rate")
        if entry.cells:
            raise UsageError(f"{head}: it is about the run itself: leave `cells` out")
    if limit.figure.name == CAPACITY:
        if not _has_ceilings(suite):
            raise UsageError(f"{head}: a capacity is measured at a ceiling, and the suite has no `sweep.ceiling`")
        if not any(is_about(limit, entry.cells, cell.cell_id, cell.kind, has_ceilings=True) for cell in cells):
            raise UsageError(f"{head}: none of these cells is a ceiling: leave `cells` out, or name ceiling-*")
