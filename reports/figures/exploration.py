"""What the page of a search shows, worked out from its explore.json: places on the time axis, rows and shares. Pure.

Shown by tests/reports/test_reports_exploration.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

ROW: Final = 22  # all in units of the drawing
LEFT: Final = 190
WIDTH: Final = 760  # The axis is so wide.
CURVE: Final = 90  # height of the curve of what was met
QUIET: Final = "no disturbance"
RESULTS: Final = ("suspicious", "proved nothing", "met nothing", "as it should")  # drawn last to first
_STEPS_S: Final = (5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    x: float
    y: float
    style: str
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An API that was disturbed, with how often, and what of it was not tried."""

    name: str
    y: int
    tried: int
    suspicious: int
    unmet: int
    nothing: int
    left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    x: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundAt:
    """Where a finding stands on the time axis."""

    x: float
    number: int
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A cause with its findings, or a suspicion."""

    title: str
    stage: str
    is_confirmed: bool
    known: str
    findings: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorationFigures:
    state: str  # running, ended, interrupted
    result: str  # a word of the badge
    badge: str  # its style
    rows: tuple[Row, ...]
    dots: tuple[Dot, ...]
    ticks: tuple[Tick, ...]
    found_at: tuple[FoundAt, ...]
    curve: str  # points of the line of what was met
    met_max: int
    now_x: float
    height: int
    confirmed: tuple[Card, ...]
    known: tuple[Card, ...]
    suspected: tuple[Card, ...]


def exploration_figures(document: Mapping[str, Any]) -> ExplorationFigures:
    diary = document["diary"]
    span_s = max(float(document["budget_s"]), float(document["elapsed_s"]), 1.0)
    rows = _rows(diary["counts"], document["not_tried_by_api"])
    places = {row.name: row.y for row in rows}
    confirmed, known, suspected = _cards(document)
    state = "running" if document["is_running"] else "interrupted" if document["is_interrupted"] else "ended"
    result, badge = _result(document, confirmed)
    met_max = max([1, *(one[7] for one in diary["tries"])])
    return ExplorationFigures(
        state=state,
        result=result,
        badge=badge,
        rows=rows,
        dots=_dots(diary["tries"], places, span_s),
        ticks=_ticks(span_s),
        found_at=_found_at(document["findings"], span_s),
        curve=_curve(diary["tries"], span_s, met_max),
        met_max=met_max,
        now_x=_x(float(document["elapsed_s"]), span_s),
        height=len(rows) * ROW + CURVE + 56,
        confirmed=confirmed,
        known=known,
        suspected=suspected,
    )


def _result(document: Mapping[str, Any], confirmed: Sequence[Card]) -> tuple[str, str]:
    if confirmed:
        return f"{len(confirmed)} found", "fail"
    if document["is_running"]:
        return "nothing found yet", "inconclusive"
    if len(document["trials_that_proved_nothing"]) * 2 > document["trials"]:
        return "most trials proved nothing", "inconclusive"
    return "nothing found", "pass"


def _x(at_s: float, span_s: float) -> float:
    return round(LEFT + WIDTH * min(1.0, at_s / span_s), 1)


def _rows(counts: Sequence[Mapping[str, Any]], left: Mapping[str, int]) -> tuple[Row, ...]:
    by_lane: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for one in counts:
        by_lane[one["lane"]][one["result"]] += one["count"]
    for api in left:
        by_lane[api]  # a row also for what was never tried
    names = sorted(by_lane, key=lambda name: (name != QUIET, name))
    return tuple(
        Row(
            name=name,
            y=place * ROW + ROW // 2,
            tried=sum(by_lane[name].values()),
            suspicious=by_lane[name]["suspicious"],
            unmet=by_lane[name]["met nothing"],
            nothing=by_lane[name]["proved nothing"],
            left=left.get(name, 0),
        )
        for place, name in enumerate(names)
    )


def _dots(tries: Sequence[Sequence[Any]], places: Mapping[str, int], span_s: float) -> tuple[Dot, ...]:
    """What matters most is drawn last, so nothing lies over it."""
    found: list[tuple[int, Dot]] = []
    for number, (at_s, took_s, purpose, lane, how, result, what, _) in enumerate(tries):
        told = f"{at_s:.0f} s, {lane}{f', {how}' if how else ''}: {what or result} ({purpose}, {took_s:.1f} s)"
        y = places[lane] + (number % 5 - 2) * 2.5  # beside one another, where many ended at once
        order = RESULTS.index(result) if result in RESULTS else len(RESULTS)
        found.append((order, Dot(x=_x(at_s, span_s), y=y, style=result.replace(" ", "-"), told=told)))
    return tuple(dot for _, dot in sorted(found, key=lambda one: -one[0]))


def _ticks(span_s: float) -> tuple[Tick, ...]:
    step_s = next((step for step in _STEPS_S if span_s / step <= 8), _STEPS_S[-1])
    times = [step_s * number for number in range(int(span_s // step_s) + 1)]
    return tuple(Tick(x=_x(at_s, span_s), label=_label(at_s)) for at_s in times)


def _label(at_s: int) -> str:
    if at_s >= 3_600:
        return f"{at_s // 3_600}:{at_s % 3_600 // 60:02} h"
    return f"{at_s} s" if at_s < 120 and at_s % 60 else f"{at_s // 60} min"


def _found_at(findings: Sequence[Mapping[str, Any]], span_s: float) -> tuple[FoundAt, ...]:
    return tuple(
        FoundAt(x=_x(one["found_after_s"], span_s), number=one["number"], told=f"{one['stage']}: {one['signature']}")
        for one in findings
        if one["stage"] == "confirmed"
    )


def _curve(tries: Sequence[Sequence[Any]], span_s: float, met_max: int) -> str:
    return " ".join(f"{_x(one[0], span_s)},{round(CURVE * (1 - one[7] / met_max), 1)}" for one in tries)


def _cards(document: Mapping[str, Any]) -> tuple[tuple[Card, ...], tuple[Card, ...], tuple[Card, ...]]:
    by_number = {one["number"]: one for one in document["findings"]}
    of_causes = [
        Card(
            title=cause["cause"],
            stage="confirmed",
            is_confirmed=True,
            known=cause["known"],
            findings=tuple(by_number[number] for number in cause["findings"]),
        )
        for cause in document["causes"]
    ]
    suspected = tuple(
        Card(title=one["signature"], stage=one["stage"], is_confirmed=False, known="", findings=(one,))
        for one in document["findings"]
        if one["stage"] != "confirmed"
    )
    return (
        tuple(card for card in of_causes if not card.known),
        tuple(card for card in of_causes if card.known),
        suspected,
    )
