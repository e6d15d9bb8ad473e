"""The grammar of a limit: `FIGURE OP NUMBER`, `FIGURE OP NUMBER * baseline`, `FIGURE OP baseline`. Pure.

The suite is checked with it before anything starts, and the analysis reads the same text from cell.json. Shown by
tests/reports/test_reports_limits.py.
"""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from reports.judge.limit_figures import FIGURES, SYNONYMS, LimitFigure

COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<=": operator.le, "<": operator.lt, ">=": operator.ge, ">": operator.gt, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
FORM: Final = "FIGURE <= NUMBER, as in p99_ms <= 50, or FIGURE >= NUMBER * baseline, as in throughput >= 0.9 * baseline"
TEXT_CHARACTERS_MAX: Final = 200
_LIMIT: Final = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(<=|>=|==|!=|<|>|=)\s*(.+?)\s*")
_NUMBER: Final = re.compile(r"[+-]?(\d[\d_]*(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_BASELINE: Final = "baseline"
# Words of time and size that people put behind a number: our units stand in the name.
_UNIT: Final = re.compile(r"([\d.]+)\s*(ms|us|µs|s|sec|%|/s|k|m|mb|kb)", re.IGNORECASE)


class LimitError(ValueError):
    """The text is no limit; the message says what is wrong and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """`bound` is a number in the figure's unit, or a factor of the baseline's figure."""

    text: str
    figure: LimitFigure
    comparison: str
    bound: float
    is_relative: bool

    def holds(self, value: float, baseline: float | None = None) -> bool:
        """Of a relative limit `baseline` is the figure of the baseline's cell."""
        assert (baseline is None) != self.is_relative, "a baseline belongs to a relative limit"
        return COMPARISONS[self.comparison](value, self.bound if baseline is None else self.bound * baseline)


class Outcome(StrEnum):
    HELD = "held"
    BROKEN = "broken"
    UNDECIDED = "undecided"  # the figure is not known, or says nothing: no pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What became of one limit (`limits.py` decides). Value and bound in the figure's unit, None if not known."""

    limit: str
    figure: str
    value: float | None
    bound: float | None
    outcome: Outcome
    reason: str


def parse_limit(text: str) -> Limit:
    """LimitError with the nearest right name, or the form that is expected."""
    if len(text) > TEXT_CHARACTERS_MAX:
        raise LimitError(f"a limit has at most {TEXT_CHARACTERS_MAX} characters, this one has {len(text)}")
    found = _LIMIT.fullmatch(text)
    if found is None:
        raise LimitError(f"expected {FORM}")
    name, comparison, bound = found[1], found[2], found[3]
    if comparison == "=":
        raise LimitError("a limit compares with ==, not with =")
    figure = _figure(name)
    number, is_relative = _bound(bound, figure)
    shown = f"{number:g}" if number != int(number) or abs(number) >= 1e15 else str(int(number))
    right = shown if not is_relative else _BASELINE if number == 1 else f"{shown} * {_BASELINE}"
    return Limit(
        text=f"{name} {comparison} {right}",
        figure=figure,
        comparison=comparison,
        bound=number,
        is_relative=is_relative,
    )


def _figure(name: str) -> LimitFigure:
    known = FIGURES.get(SYNONYMS.get(name, name))
    if known is not None:
        return known
    names = [*FIGURES, *SYNONYMS]
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6) or [
        one for one in names if one.startswith(f"{name.lower()}_")
    ]
    advice = f"did you mean {close[0]!r}?" if close else "docs/reference/limits.md has all of them"
    raise LimitError(f"{name} is no figure; {advice}")


def _bound(text: str, figure: LimitFigure) -> tuple[float, bool]:
    """The number, and whether it is a factor of the baseline's figure."""
    parts = [part.strip() for part in text.split("*")]
    others = [part for part in parts if part != _BASELINE]
    if len(parts) > 2 or len(parts) - len(others) > 1 or len(others) > 1:
        raise LimitError(f"{text!r} is no bound: expected a number, {_BASELINE}, or NUMBER * {_BASELINE}")
    return (_number(others[0], figure) if others else 1.0), len(others) < len(parts)


def _number(text: str, figure: LimitFigure) -> float:
    if _NUMBER.fullmatch(text) is None:
        in_unit = f", in {figure.unit}: the unit stands in the figure's name" if _UNIT.fullmatch(text) else ""
        near = difflib.get_close_matches(text, [_BASELINE], n=1, cutoff=0.6)
        raise LimitError(
            f"{text!r} is no number; did you mean {near[0]!r}?" if near else f"{text!r}: expected a number{in_unit}"
        )
    number = float(text.replace("_", ""))
    if not math.isfinite(number):
        raise LimitError(f"{text} is no finite number")
    return number
