"""A run as a test report: one suite for each cell with its name, counts and times, and their sums. Pure.

`render/junit.py` writes it; summary.md has the same names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from reports.figures.cell import CellFigures
from reports.judge.checks import FAIL, INCONCLUSIVE, Check


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteCounts:
    """Counts of checks. An inconclusive check is an error, because a skip would look like a pass."""

    tests: int
    failures: int
    errors: int
    skipped: int  # failures that an allowance covers
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSuite:
    cell: CellFigures
    name: str  # no other cell of the run has it
    checks: tuple[Check, ...]  # those that the cell can break, and all that it did not pass
    counts: SuiteCounts
    began: str | None  # ISO 8601 without an offset; None: the run does not tell


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteFigures:
    problems: SuiteCounts  # What the run as a whole has, each as an error.
    limits: SuiteCounts  # Limits of several cells, or of the run itself.
    cells: tuple[CellSuite, ...]
    total: SuiteCounts


def suite_figures(
    cells: Sequence[CellFigures], problems: Sequence[str], limits: Sequence[Check], t0_wall: str | None
) -> SuiteFigures:
    names = unique_names(cells)
    of_run = SuiteCounts(tests=len(problems), failures=0, errors=len(problems), skipped=0, took_s=0.0)
    suites = tuple(_suite(cell, name, t0_wall) for cell, name in zip(cells, names, strict=True))
    of_limits = _counts(limits, 0.0)
    total = _total([of_run, of_limits, *(suite.counts for suite in suites)])
    return SuiteFigures(problems=of_run, limits=of_limits, cells=suites, total=total)


def _suite(cell: CellFigures, name: str, t0_wall: str | None) -> CellSuite:
    checks = tuple(check for check in cell.verdict.checks if check.is_test_case)
    return CellSuite(
        cell=cell, name=name, checks=checks, counts=_counts(checks, cell.took_s), began=_began(t0_wall, cell.began_s)
    )


def unique_names(cells: Sequence[CellFigures]) -> tuple[str, ...]:
    """What each cell is in words, and which of several that share them: by its repetition, else by its id."""
    shared = Counter(cell.title for cell in cells)
    return tuple(cell.title if shared[cell.title] < 2 else _with_number(cell) for cell in cells)


def _with_number(cell: CellFigures) -> str:
    found = re.search(r"-r(\d+)$", cell.id)
    return f"{cell.title}, repetition {found[1]}" if found else f"{cell.title} [{cell.id}]"


def _counts(checks: Sequence[Check], took_s: float) -> SuiteCounts:
    return SuiteCounts(
        tests=len(checks),
        failures=sum(check.result == FAIL for check in checks),
        errors=sum(check.result == INCONCLUSIVE for check in checks),
        skipped=sum(bool(check.allowed) for check in checks),
        took_s=round(took_s, 3),  # as it is written, so that the total is their sum
    )


def _total(parts: Sequence[SuiteCounts]) -> SuiteCounts:
    return SuiteCounts(
        tests=sum(part.tests for part in parts),
        failures=sum(part.failures for part in parts),
        errors=sum(part.errors for part in parts),
        skipped=sum(part.skipped for part in parts),
        took_s=sum(part.took_s for part in parts),
    )


def _began(t0_wall: str | None, after_s: float | None) -> str | None:
    if after_s is None:
        return None
    try:
        began = datetime.fromisoformat(t0_wall or "") + timedelta(seconds=after_s)
    except (ValueError, OverflowError):
        return None
    return began.replace(tzinfo=None).isoformat(timespec="seconds")
