"""A cell with its verdict, and the verdict of all cells of a run together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reports.judge.checks import EXIT_CODES, INCONCLUSIVE, Check, Verdict, worst
from reports.read.model import CellFacts
from runlog.records.verdicts import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    facts: CellFacts
    verdict: Verdict


def overall(judged: Sequence[Judged], problems: Sequence[str] = (), limits: Sequence[Check] = ()) -> Result:
    """The verdict of the cells and of the run as a whole. A problem of the run itself keeps it from being a pass. So
    does a limit of the run (`limits`) that is not held."""
    return worst(
        [
            *(item.verdict.result for item in judged),
            *(INCONCLUSIVE for _ in problems),
            *(check.result for check in limits),
        ]
    )


def exit_code(judged: Sequence[Judged], problems: Sequence[str] = (), limits: Sequence[Check] = ()) -> int:
    return EXIT_CODES[overall(judged, problems, limits)]
