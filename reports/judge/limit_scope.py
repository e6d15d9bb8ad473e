"""Which cells a limit is about. Pure, and the same before a run and after it.

A limit without patterns is about every cell, except the tries of a rate search and the ceilings of a sweep, which go
too far on purpose. A capacity is about ceilings only. A throughput that is compared with the baseline is a capacity
too, if the sweep has ceilings: at the common rate every configuration carries the same rate. Shown by
tests/harness/test_harness_limits.py and tests/reports/test_reports_run_limits.py."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final, Protocol

from reports.judge.limit_figures import CAPACITY, THROUGHPUT
from reports.judge.limit_grammar import TRY_PREFIX, Limit
from runlog.records.cell import CellKind

CEILING_PREFIX: Final = "ceiling-"  # ids of the cells at a ceiling
OF_SWEEP: Final = (CellKind.SWEEP, CellKind.CEILING)


class CellIdentity(Protocol):
    """What a limit is chosen by."""

    @property
    def cell_id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def baseline(self) -> bool: ...


def is_ceiling(cell_id: str, kind: str) -> bool:
    """A planned cell that left nothing has only its id to tell it."""
    return kind == CellKind.CEILING or cell_id.startswith(CEILING_PREFIX)


def is_at_ceilings(limit: Limit, *, has_ceilings: bool) -> bool:
    """Whether a limit that names no cells is about the ceilings of the sweep, and about nothing else."""
    is_of_capacity = limit.is_relative and limit.figure.name == THROUGHPUT
    return limit.figure.name == CAPACITY or (has_ceilings and is_of_capacity)


def is_about(limit: Limit, patterns: Sequence[str], cell_id: str, kind: str, *, has_ceilings: bool) -> bool:
    """Whether the cell is one that the limit is about; the baseline of a sweep counts as one."""
    is_own = is_ceiling(cell_id, kind)
    if limit.figure.name == CAPACITY and not is_own:
        return False
    if patterns:
        return any(fnmatchcase(cell_id, pattern) for pattern in patterns)
    return not cell_id.startswith(TRY_PREFIX) and is_own == is_at_ceilings(limit, has_ceilings=has_ceilings)
