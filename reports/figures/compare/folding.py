"""Which rows of a comparison are shown one by one, and which are folded into one line. Pure.

A reader who looks for changes should not have to search among seventy rows that say nothing. A row is always shown if
it decides, or if one side lacks it. The table beside the page has every row. Shown by
tests/reports/test_reports_folding.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reports.figures.compare.comparison import CORRECTNESS, SAME, TOO_NOISY, UNDECIDED, WHOLE_RUN, Row

_FEW: Final = 3  # this many rows are no longer than the line that would replace them
_REASONS_TOLD: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    shown: tuple[Row, ...]
    rows: tuple[Row, ...]  # that the line stands for
    line: str  # empty if there is none


def fold(rows: Sequence[Row]) -> Folded:
    """Rows of single undecided cells become one line with their reasons. Rows of kept promises carry no information."""
    told = [row for row in rows if row.measure != CORRECTNESS or row.result != SAME]
    away = [row for row in told if _says_nothing(row)]
    if len(away) <= _FEW:
        return Folded(shown=tuple(told), rows=(), line="")
    return Folded(shown=tuple(row for row in told if not _says_nothing(row)), rows=tuple(away), line=_line(away))


def _says_nothing(row: Row) -> bool:
    is_of_one_cell = row.cell != WHOLE_RUN and row.measure != CORRECTNESS
    return is_of_one_cell and row.result == UNDECIDED and row.base is not None and row.new is not None


def _line(rows: Sequence[Row]) -> str:
    cells, measures = dict.fromkeys(row.cell for row in rows), dict.fromkeys(row.measure for row in rows)
    reasons: dict[str, int] = {}
    for row in rows:
        # How many repetitions would do is each row's own.
        reason = TOO_NOISY if row.reason.startswith(TOO_NOISY) else row.reason
        reasons[reason] = reasons.get(reason, 0) + 1
    most = sorted(reasons.items(), key=lambda item: -item[1])[:_REASONS_TOLD]
    why = "; ".join(f"{reason} ({count})" if len(reasons) > 1 else reason for reason, count in most)
    return (
        f"{len(rows)} figures of {len(cells)} cells are undecided one by one "
        f"({', '.join(name.replace('_', ' ') for name in measures)}): {why}"
    )
