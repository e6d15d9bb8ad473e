"""What users of somebody's locustfile asked for beside the cell's load: a row for each request, and points over time.

The figures are Locust's own. Its users wait for each answer, so a stall hides the requests that they did not make
meanwhile, and no percentile here is comparable with those of the cell's producers. Pure.
Shown by tests/reports/test_reports_own_requests.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reports.read.cell import Cell
from runlog.records.stats import RequestsInAll, RequestsSample

SERIES_MAX: Final = 6  # drawn; the table has all
_ERROR_CHARACTERS: Final = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRow:
    """All requests of one name. Times in microseconds."""

    name: str  # with the type before it
    requests: int
    failures: int
    failed_share: float
    p50_us: int
    p90_us: int
    p99_us: int
    max_us: int
    errors: tuple[tuple[str, int], ...]  # the most frequent ones


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPoint:
    """One second, from the cell's start."""

    t: float
    series: str
    requests: int
    failures: int
    p99_ms: float | None  # None: no time was told


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRequests:
    file: str
    users: int
    rows: tuple[RequestRow, ...]  # the most frequent first
    points: tuple[RequestPoint, ...]  # The most frequent names have some.
    not_drawn: int  # names that the table has and the chart has not

    @property
    def has_failures(self) -> bool:
        return any(row.failures for row in self.rows)


def own_requests(cell: Cell) -> OwnRequests | None:
    """None for a cell without a locustfile."""
    locust = cell.record.workload.locust
    if locust is None:
        return None
    rows = sorted(_rows(cell), key=lambda row: (-row.requests, row.name))
    drawn = [row.name for row in rows[:SERIES_MAX]]
    return OwnRequests(
        file=locust.file,
        users=locust.users,
        rows=tuple(rows),
        points=tuple(_points(cell, drawn)),
        not_drawn=max(0, len(rows) - SERIES_MAX),
    )


def _name(kind: str, name: str) -> str:
    return f"{kind} {name}".strip()


def _rows(cell: Cell) -> list[RequestRow]:
    return [
        RequestRow(
            name=_name(each.source, each.request),
            requests=each.requests,
            failures=each.failures,
            failed_share=each.failures / max(1, each.requests),
            p50_us=each.p50_us,
            p90_us=each.p90_us,
            p99_us=each.p99_us,
            max_us=each.max_us,
            errors=tuple((words[:_ERROR_CHARACTERS], count) for words, count in each.errors.items()),
        )
        for each in cell.samples
        if isinstance(each, RequestsInAll)
    ]


def _points(cell: Cell, drawn: Sequence[str]) -> list[RequestPoint]:
    """A second in which a name asked for nothing is a point of none: a gap of the service must not look like a line."""
    told = {
        (_name(each.source, each.request), each.t_us): each
        for each in cell.samples
        if isinstance(each, RequestsSample) and _name(each.source, each.request) in drawn
    }
    seconds = [t_us for _, t_us in told]
    if not seconds:
        return []
    first_us, _ = cell.span_us()
    found = []
    for name in drawn:
        for t_us in range(min(seconds), max(seconds) + 1, 1_000_000):
            each = told.get((name, t_us))
            found.append(
                RequestPoint(
                    t=round((t_us - first_us) / 1e6, 3),
                    series=name,
                    requests=each.requests if each else 0,
                    failures=each.failures if each else 0,
                    p99_ms=each.p99_us / 1e3 if each and each.p99_us else None,
                )
            )
    return found
