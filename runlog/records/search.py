"""search.json: the tries of a rate search, what it found, and the cells of the load curve. Written after each try."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SEARCH_VERSION: Final = 2


class SearchEnd(StrEnum):
    """The end of the searched range that the search reached."""

    NONE = ""
    LOW = "low"
    HIGH = "high"


class Clause(StrEnum):
    """The conditions that a rate must keep."""

    GENERATOR = "generator"  # the load generator is not full; otherwise it would be the limit
    LATENCY = "p99"
    BACKLOG = "backlog"
    DAMAGE = "damage"  # no acknowledged record is lost, duplicated or reordered
    LOAD = "load"  # there was a load at all


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractRecord:
    """The conditions, from the suite, under which a rate counts as sustained."""

    p99_ms: float
    backlog_growth_share: float | None = None  # It is a share of the rate.


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchProbe:
    """One try: its cell, and the estimate of the limit after it."""

    cell_id: str
    rate_per_s: float
    passed: bool
    broken: tuple[Clause, ...]
    reasons: tuple[str, ...]  # one for each broken clause, in words
    p99_ms: float | None  # None: beyond what was acknowledged
    acked_per_s: float
    backlog_growth_share: float  # It is a share of the rate.
    kept_per_s: float | None  # the rate that is reported if the search ends here
    estimate_per_s: float  # the rate that half of the tries keep
    low_per_s: float  # 95 % interval of the estimate
    high_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPoint:
    """One cell of the load curve: a fraction of the found rate, some of them above it."""

    fraction: float
    repetition: int
    cell_id: str | None = None
    rate_per_s: float | None = None
    passed: bool | None = None  # None: not measured
    reasons: tuple[str, ...] = ()  # why it broke the contract


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRecord:
    schema_version: int
    contract: ContractRecord
    searched_per_s: tuple[float, ...]  # the range, lowest and highest rate
    # Was tried and kept, and one more try keeps it with 95 % probability. None: no such rate was found.
    rate_per_s: float | None
    half_per_s: float  # the limit: the rate that half of the tries keep
    low_per_s: float  # 95 % interval of the limit
    high_per_s: float
    ended_at: SearchEnd
    limited_by: tuple[Clause, ...]  # what broke the tries that failed, most frequent first
    limit_reasons: tuple[str, ...]  # The last failed tries near the limit have them.
    probes: tuple[SearchProbe, ...]
    load_curve: tuple[LoadPoint, ...]
