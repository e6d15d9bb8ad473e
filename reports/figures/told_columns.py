"""Wide tables without empty columns. Columns that are 0 in every row, or recorded in none, are only named.

Pure. Shown by tests/reports/test_reports_told_columns.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

V = TypeVar("V")
_NOTHING: Final = "–"
_ROWS_MIN: Final = 2  # one row is read as a list, and a 0 in it is an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldColumns(Generic[V]):
    headings: tuple[str, ...]
    rows: tuple[tuple[V, ...], ...]
    left_out: str  # a sentence for each kind of column that is not there; empty if all are


def told_columns(headings: Sequence[str], rows: Sequence[Sequence[V]]) -> ToldColumns[V]:
    zero, unknown, kept = [], [], []
    for place, heading in enumerate(headings):
        column = [row[place] for row in rows]
        if len(rows) >= _ROWS_MIN and all(_is_unknown(value) for value in column):
            unknown.append(heading)
        elif len(rows) >= _ROWS_MIN and all(_is_zero(value) for value in column):
            zero.append(heading)
        else:
            kept.append(place)
    sentences = [f"0 in every row: {', '.join(zero)}."] if zero else []
    sentences += [f"Recorded in no row: {', '.join(unknown)}."] if unknown else []
    return ToldColumns(
        headings=tuple(headings[place] for place in kept),
        rows=tuple(tuple(row[place] for place in kept) for row in rows),
        left_out=" ".join(sentences),
    )


def _is_unknown(value: object) -> bool:
    return value is None or value == _NOTHING


def _is_zero(value: object) -> bool:
    return value in (0, "0")
