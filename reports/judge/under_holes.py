"""What the holes of a cell's evidence do to its checks. Pure; the rule and the tables are in `holes.py`.

Shown by tests/reports/test_reports_holes.py, and with real rows by tests/reports/test_reports_planted_holes.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from reports.evidence.holes import told_holes
from reports.judge.checks import FAIL, INCONCLUSIVE, PASS, Check
from reports.judge.holes import TOUCHES, Evidence
from reports.read.model import CellFacts
from runlog.records.holes import Hole

_TOLD_MAX: Final = 3


def holes_of(facts: CellFacts) -> tuple[Hole, ...]:
    """All holes in the evidence of a cell: of its files and of its record."""
    return tuple(dict.fromkeys((*facts.holes, *told_holes(facts.cell))))


def under_holes(checks: Iterable[Check], holes: Sequence[Hole]) -> tuple[Check, ...]:
    """The checks, those inconclusive that rest on a hole."""
    return tuple(_under(check, holes) for check in checks)


def touches(hole: Hole, evidence: frozenset[Evidence]) -> bool:
    return bool(TOUCHES[hole.kind] & evidence)


def told(holes: Sequence[Hole]) -> str:
    """The holes in words, each once, and not more than a reader reads."""
    texts = list(dict.fromkeys(hole.text() for hole in holes))
    more = len(texts) - _TOLD_MAX
    return "; ".join(texts[:_TOLD_MAX]) + (f"; and {more} more" if more > 0 else "")


def _under(check: Check, holes: Sequence[Hole]) -> Check:
    if check.result == PASS and (own := [hole for hole in holes if touches(hole, check.rests.on)]):
        return replace(
            check,
            result=INCONCLUSIVE,
            reason=f"not known, for evidence is missing ({told(own)}). What there is says: {check.reason}",
            is_under_hole=True,
        )
    if check.result == FAIL and (own := [hole for hole in holes if _may_undo(hole, check)]):
        return replace(
            check,
            result=INCONCLUSIVE,
            reason=f"{check.reason}; but evidence is missing that could explain it ({told(own)})",
        )
    return check


def _may_undo(hole: Hole, check: Check) -> bool:
    """Whether the violation may be none if one knew what is missing. Sends that are missing explain nothing about
    records of other producers."""
    undone = TOUCHES[hole.kind] & check.rests.undone_by
    if undone == {Evidence.SENDS} and hole.producers and check.producers:
        return check.producers <= set(hole.producers)
    return bool(undone)
