"""results/compare-<BASE>.json: what `harness compare BASE NEW` found, in the results of NEW."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

COMPARISON_VERSION: Final = 1


class Change(StrEnum):
    """The result for NEW, compared with BASE."""

    UNDECIDED = "undecided"
    BETTER = "better"
    WORSE = "worse"
    SAME = "same"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedAnalyses:
    """Ids of the analyses that wrote the figures of the two runs."""

    base: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRow:
    """One figure of one cell, or of the whole run. The ratio is NEW over BASE."""

    cell: str
    measure: str
    unit: str
    base: float | None
    new: float | None
    ratio: float | None
    low: float | None  # It begins the ratio's interval, which is simultaneous with those of its family.
    high: float | None
    repetitions_base: int
    repetitions_new: int
    p: float | None
    q: float | None  # p adjusted for all tests of its family
    result: Change
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRecord:
    schema_version: int
    base: str  # name of the run's directory
    new: str
    analyses: ComparedAnalyses
    result: Change
    exit_code: int  # 0 same or better, 1 worse, 4 undecided
    relevant: float  # a smaller change does not matter, as a share
    forced: bool  # runs that are not alike were compared because of --force
    unlike: tuple[str, ...]  # reasons to refuse
    differs: tuple[str, ...]  # what is compared
    warnings: tuple[str, ...]
    only_base: tuple[str, ...]  # cells that only one of the runs has
    only_new: tuple[str, ...]
    rows: tuple[ComparedRow, ...]
