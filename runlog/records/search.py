"""search.json: the tries of a rate search, what it found, and the cells of the load curve. Written after each try."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

SEARCH_VERSION: Final = 1


class SearchEnd(StrEnum):
    """Which end of the searched range the search ran into."""

    NONE = ""
    LOW = "low"
    HIGH = "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchProbe:
    """One try: a cell, and the estimate of the limit after it."""

    cell_id: str
    rate_per_s: float
    passed: bool
    broken: tuple[str, ...]  # clauses: generator, p99, backlog, damage, load
    reasons: tuple[str, ...]
    p99_ms: float | None
    acked_per_s: float
    backlog_growth_share: float
    estimate_per_s: float
    low_per_s: float
    high_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    """One cell of the load curve: a fraction of the found rate."""

    fraction: float
    repetition: int
    cell_id: str | None = None
    rate_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRecord:
    schema_version: int
    contract: Mapping[str, Any]  # as the suite gives it: p99_ms and the other clauses
    searched_per_s: tuple[float, ...]  # the range, lowest and highest rate
    rate_per_s: float  # the limit that was found
    low_per_s: float
    high_per_s: float
    ended_at: SearchEnd
    limited_by: tuple[str, ...]
    limit_reasons: tuple[str, ...]
    probes: tuple[SearchProbe, ...]
    load_curve: tuple[LoadPoint, ...]
