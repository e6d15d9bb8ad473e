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
    """All requests of one name. Times in microseconds; None where only the seconds were told."""

    name: str  # with the type before it
    requests: int
    failures: int
    failed_share: float
    p50_us: int | None
    p90_us: int | None
    p99_us: int | None
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
    is_cut_short: bool  # the process was killed before it had told the whole: rows are sums of seconds

    @property
    def has_failures(self) -> bool:
        return any(row.failures for row in self.rows)


def own_requests(cell: Cell) -> OwnRequests | None:
    """None for a cell without a locustfile."""
    locust = cell.record.workload.locust
    if locust is None:
        return None
    whole, summed = _rows(cell), _summed(cell)
    rows = sorted([*whole.values(), *summed.values()], key=lambda row: (-row.requests, row.name))
    drawn = [row.name for row in rows[:SERIES_MAX]]
    return OwnRequests(
        file=locust.file,
        users=locust.users,
        rows=tuple(rows),
        points=tuple(_points(cell, drawn)),
        not_drawn=max(0, len(rows) - SERIES_MAX),
        is_cut_short=bool(summed),
    )


def _name(kind: str, name: str) -> str:
    return f"{kind} {name}".strip()


def _rows(cell: Cell) -> dict[str, RequestRow]:
    """By name. What was told last counts: it is told when the users are asked to stop, and when they have ended."""
    return {
        (name := _name(each.source, each.request)): RequestRow(
            name=name,
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
    }


def _summed(cell: Cell) -> dict[str, RequestRow]:
    """Of names whose whole was never told. Percentiles of seconds cannot be added up."""
    whole = _rows(cell)
    seconds: dict[str, list[RequestsSample]] = {}
    for each in cell.samples:
        if isinstance(each, RequestsSample) and (name := _name(each.source, each.request)) not in whole:
            seconds.setdefault(name, []).append(each)
    return {
        name: RequestRow(
            name=name,
            requests=(requests := sum(each.requests for each in own)),
            failures=(failures := sum(each.failures for each in own)),
            failed_share=failures / max(1, requests),
            p50_us=None,
            p90_us=None,
            p99_us=None,
            max_us=max(each.max_us for each in own),
            errors=(),
        )
        for name, own in seconds.items()
    }


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
