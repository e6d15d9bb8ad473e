"""If a cell cannot be analysed, only this cell is inconclusive. Halving the set of cells finds it, and a note names it.

Files are checked before Spark opens them, so this is for unforeseen errors. The number of attempts is bounded.
Shown by tests/reports/test_reports_tolerant.py.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Final

from reports.read.cell import Cell
from reports.read.errors import EnvironmentProblem
from reports.read.model import LATENCY_KINDS, PREDICTED_KINDS, SET_KINDS, CellFacts, IdentitySet, Latency, SetComparison
from runlog.records.cell import CellRecord
from runlog.records.codec import from_document
from runlog.records.holes import Hole, HoleKind

ATTEMPTS_MAX: Final = 40  # finds two bad cells among a thousand; each attempt analyses at most half of the one before

Analysis = Callable[[Sequence[Cell]], Sequence[CellFacts]]


class EveryCellFailsError(Exception):
    """Then it is not the cells' fault."""


def facts_of_all(cells: Sequence[Cell], analyse: Analysis) -> list[CellFacts]:
    """Facts of each cell in its order, with `unusable` ones for those that fail alone.

    EveryCellFailsError where several cells fail, each alone and in the same way. What is no Exception goes through.
    """
    search = _Search(analyse)
    found = search.facts(list(cells))
    if len(cells) > 1 and len(search.failed) == len(cells) and len(set(search.failed.values())) == 1:
        raise EveryCellFailsError(f"each of {len(cells)} cells fails alone: {next(iter(search.failed.values()))}")
    return found


class _Search:
    def __init__(self, analyse: Analysis) -> None:
        self._analyse = analyse
        self._attempts_left = ATTEMPTS_MAX
        self.failed: dict[str, str] = {}

    def facts(self, cells: list[Cell]) -> list[CellFacts]:
        if not cells:
            return []
        if not self._attempts_left:
            return [self._give_up(cell) for cell in cells]
        self._attempts_left -= 1
        try:
            return list(self._analyse(cells))
        except EnvironmentProblem:  # Spark is gone: no cell's fault
            raise
        except Exception as error:  # unforeseen data can make any query or rule fail
            if len(cells) == 1:
                facts = unusable_by(cells[0], error)
                self.failed[cells[0].cell_id] = facts.holes[0].what
                return [facts]
        print(f"reports: an analysis of {len(cells)} cells failed; it is tried again in halves", file=sys.stderr)
        middle = len(cells) // 2
        return [*self.facts(cells[:middle]), *self.facts(cells[middle:])]

    def _give_up(self, cell: Cell) -> CellFacts:
        why = "not analysed: too many other cells of this run failed"
        self.failed[cell.cell_id] = why
        return unusable(cell, why)


def unusable_by(cell: Cell, error: Exception) -> CellFacts:
    """The facts of a cell whose own documents make a rule fail. The whole error is on stderr."""
    traceback.print_exception(error)
    first = next(iter(str(error).strip().splitlines()), "")[:200]
    return unusable(cell, f"its analysis failed: {type(error).__name__}: {first}")


def unusable(cell: Cell, why: str) -> CellFacts:
    """Facts that say nothing, of a cell whose document is not to be trusted either."""
    told = cell.record
    document = {
        "cell_id": cell.cell_id,
        "kind": told.kind.value,
        "title": cell.title[:200],
        "client": told.client[:60],
        "engine": told.engine[:60],
        "outcome": {"status": told.outcome.status.value, "reason": told.outcome.reason[:300]},
    }
    record = from_document(CellRecord, document)
    return CellFacts(
        cell=Cell(cell_id=cell.cell_id, record=record, holes=cell.holes),
        latency={kind: Latency() for kind in LATENCY_KINDS},
        observed={kind: IdentitySet() for kind in SET_KINDS},
        predictions={kind: SetComparison() for kind in PREDICTED_KINDS},
        holes=(Hole(kind=HoleKind.UNKNOWN, what=why), *cell.holes),
    )
