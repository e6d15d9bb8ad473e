"""The grammar of a limit: `FIGURE OP NUMBER`, `FIGURE OP NUMBER * baseline`, `FIGURE OP baseline`. Pure.

In place of a figure there may be one of several cells: `median(FIGURE)` over the repetitions of each configuration,
`total(FIGURE)` over the run.

The suite is checked with it before anything starts, and the analysis reads the same text from cell.json. Shown by
tests/reports/test_reports_limits.py.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from reports.judge.limit_figures import COUNTED, FIGURES, RUN_FIGURES, SYNONYMS, LimitFigure
from runlog.files.nearest import nearest_name

FORM: Final = (
    "FIGURE <= NUMBER, as in p99_ms <= 50, FIGURE >= NUMBER * baseline, as in throughput >= 0.9 * baseline, or one of "
    "several cells, as in median(p99_ms) <= 50 and total(lost) == 0"
)
TRY_PREFIX: Final = "search-probe-"  # ids of the tries of a rate search, which go too far on purpose
TEXT_CHARACTERS_MAX: Final = 200
_LIMIT: Final = re.compile(r"\s*([A-Za-z_][\w.]*(?:\s*\([^()]*\))?)\s*(<=|>=|==|!=|<|>|=)\s*(.+?)\s*")
_OF_SEVERAL: Final = re.compile(r"(\w+)\s*\(\s*([^()]*?)\s*\)")
_NUMBER: Final = re.compile(r"[+-]?(\d[\d_]*(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_BASELINE: Final = "baseline"
# Words of time and size that people put behind a number: our units stand in the name.
_UNIT: Final = re.compile(r"([\d.]+)\s*(ms|us|µs|s|sec|%|/s|k|m|mb|kb)", re.IGNORECASE)


class Aggregate(StrEnum):
    """One figure of several cells: of the repetitions of each configuration, or, the last one, of the run."""

    MEDIAN = "median"
    MEAN = "mean"
    MIN = "min"
    MAX = "max"
    TOTAL = "total"


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
    aggregate: Aggregate | None = None  # None: of one cell, or of the run itself

    @property
    def is_of_cell(self) -> bool:
        """Whether each cell is judged alone."""
        return self.aggregate is None and self.figure.name in FIGURES

    @property
    def is_of_configuration(self) -> bool:
        """Whether the repetitions of each configuration are judged together."""
        return self.aggregate not in (None, Aggregate.TOTAL)


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
    aggregate, figure, name = _measured(name)
    number, is_relative = _bound(bound, figure)
    if (is_relative and aggregate is Aggregate.TOTAL) or (is_relative and figure.name in RUN_FIGURES):
        raise LimitError(f"{name} is of the whole run, so there is no baseline to compare it with")
    shown = f"{number:g}" if number != int(number) or abs(number) >= 1e15 else str(int(number))
    right = shown if not is_relative else _BASELINE if number == 1 else f"{shown} * {_BASELINE}"
    return Limit(
        text=f"{name} {comparison} {right}",
        figure=figure,
        comparison=comparison,
        bound=number,
        is_relative=is_relative,
        aggregate=aggregate,
    )


def _measured(text: str) -> tuple[Aggregate | None, LimitFigure, str]:
    """What is judged, and how it is written."""
    count = text.removeprefix("total_")
    if count != text and count in COUNTED:
        text = f"total({count})"
    found = _OF_SEVERAL.fullmatch(text)
    if found is None:
        return None, RUN_FIGURES.get(text) or _figure(text), text
    if found[1] not in list(Aggregate):
        near = nearest_name(found[1], list(Aggregate))
        advice = f"did you mean {near}({found[2]})?" if near else f"expected one of {', '.join(Aggregate)}"
        raise LimitError(f"{found[1]}({found[2]}): {advice}")
    aggregate, figure = Aggregate(found[1]), _figure(found[2])
    if aggregate is Aggregate.TOTAL and figure.name not in COUNTED:
        raise LimitError(f"{text}: only counts are added up, as in total(lost); expected median, mean, min or max")
    return aggregate, figure, f"{aggregate}({found[2]})"


def _figure(name: str) -> LimitFigure:
    known = FIGURES.get(SYNONYMS.get(name, name))
    if known is not None:
        return known
    names = [*FIGURES, *SYNONYMS, *RUN_FIGURES]
    near = nearest_name(name, names)
    advice = f"did you mean {near!r}?" if near else "docs/reference/limits.md has all of them"
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
        near = nearest_name(text, [_BASELINE])
        raise LimitError(
            f"{text!r} is no number; did you mean {near!r}?" if near else f"{text!r}: expected a number{in_unit}"
        )
    number = float(text.replace("_", ""))
    if not math.isfinite(number):
        raise LimitError(f"{text} is no finite number")
    return number
