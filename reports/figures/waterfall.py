"""Where the time of a record goes: the stages between its times, as waterfalls and their tables.

The load processes counted these figures in the measured window (`outcome.health.stages`). Four of them are also the
latencies of the same records in the run log. These four are taken from the run log, whose bins are finer. So a latency
has one value on the whole page.

The chart over all cells shows means, because means add up. A percentile of the whole is not the sum of the percentiles
of its parts. The charts of single cells show percentiles too, so they mark the whole beside the parts. Pure.
Shown by tests/reports/test_reports_waterfall.py.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reports.evidence.asked import is_closed_loop
from reports.figures.clock_bands import BarBand
from reports.figures.stages import (
    BETWEEN_HOSTS,
    LEVELS,
    MEAN,
    Level,
    end_to_end_error_us,
    shown_stages,
    words_of_not_shown,
)
from reports.figures.sweep.behaviour import mean_record_queue_us
from reports.judge.judged import Judged
from runlog.records.cell import CellKind
from runlog.records.hosts import known_error_us
from runlog.records.load import StageFigures, Stages

LABELS_MAX: Final = 40  # The chart over all cells has so many. The table has all.
LAG, QUEUE, WIRE, REPLICATION, FETCH, UNSPLIT = (
    "schedule lag", "queue and linger", "wire and broker", "replication, way back", "fetch wait and poll", "not split",
)  # fmt: skip
SERIES: Final = (LAG, QUEUE, WIRE, UNSPLIT, REPLICATION, FETCH)  # in the order of time
STAGE_WORDS: Final[Mapping[str, str]] = {
    "schedule_lag": "due to handed over: schedule lag, the generator's own",
    "send_to_append": "handed over to appended: queue, linger, wire, the leader's append",
    "append_to_ack": "appended to acknowledged: replication and the way back",
    "send_to_ack": "handed over to acknowledged",
    "append_to_poll": "appended to polled: fetch wait and poll",
    "intended_to_ack": "due to acknowledged: the corrected latency",
    "intended_to_poll": "due to polled: end to end",
}
ACKED, POLLED = "to the acknowledgement", "to the reader"
UNDER_FAULTS: Final = "under faults"
CLOSED_LOOP: Final = "in a closed loop"
# The key says whether there is no schedule.
_FROM: Final = {True: "From the hand-over", False: "From the intended time"}
_LABEL_WIDTH: Final = 40  # characters in a line of a label beside the bars
_UNSPLIT_SHARE_MAX: Final = 0.9
_NAMED_MAX: Final = 3  # cells in a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    series: str
    us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A stage in a chart, in milliseconds."""

    label: str  # `|` ends a line
    title: str
    stage: str
    start: float
    end: float
    ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    label: str
    title: str
    whole: float  # ms
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """The data sets of one chart."""

    stages: tuple[Bar, ...]
    wholes: tuple[Whole, ...]
    clock: tuple[BarBand, ...] = ()  # around wholes between two load hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """One stage as the load processes counted it, in microseconds. None: the sample is too small for it. Infinite: the
    percentile falls on records that never came."""

    stage: str
    words: str
    n: int
    us: tuple[float | None, ...]  # One for each of LEVELS, then the maximum.
    negative: int
    clock_error_us: float | None = None  # Only a stage that begins on one load host and ends on another has one.


@dataclass(frozen=True, slots=True, kw_only=True)
class CellStages:
    rows: tuple[StageRow, ...]
    bars: Bars  # all levels on both ways
    not_shown: str  # a sentence: which stages nobody can know, and why; empty if none
    has_percentiles: bool  # among the bars
    is_closed_loop: bool
    failed: int | None  # sends without an end: they are in no percentile
    unknown: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanRow:
    """Means of one title; `parts` are by SERIES."""

    path: str
    label: str
    parts: tuple[float | None, ...]
    whole_us: float
    n: int
    clock_error_us: float | None = None  # The whole has one if it begins on one load host and ends on another.


@dataclass(frozen=True, slots=True, kw_only=True)
class WayChart:
    """Means of all cells on one way."""

    name: str
    heading: str
    bars: Bars
    undrawn: str  # It says which cells are only in the table, and why. Empty if none is.


@dataclass(frozen=True, slots=True, kw_only=True)
class WaterfallFigures:
    charts: tuple[WayChart, ...]
    without: tuple[str, ...]  # a sentence for each way that has no chart, and for stages that are not shown
    rows: tuple[MeanRow, ...]
    more: int  # how many bars of the longest chart are only in the table


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """One way at one level. `whole_us` is measured by itself; only of means is it the sum of the parts."""

    path: str
    level: str
    parts: tuple[Part, ...]
    whole_us: float
    n: int
    clock_error_us: float = 0.0


def _us(stage: StageFigures | None, level: Level) -> float | None:
    """None too if the level is not reached: nothing endless is drawn."""
    us = None if stage is None else level.us(stage)
    return None if us is None or math.isinf(us) else us


def waterfalls(item: Judged) -> list[Waterfall]:
    """Every level for which the sample is large enough, on both ways."""
    stages = shown_stages(item)
    queue_us = mean_record_queue_us(item.facts) or 0.0
    found = []
    for level in LEVELS:
        for path, whole in ((ACKED, stages.intended_to_ack), (POLLED, stages.intended_to_poll)):
            whole_us, lag_us = _us(whole, level), _us(stages.schedule_lag, level)
            if whole is None or whole_us is None or lag_us is None:
                continue
            rest = _rest(stages, path, level, queue_us, whole_us - lag_us)
            parts = (Part(series=LAG, us=lag_us), *(part for part in rest if part.us > 0))
            error_us = end_to_end_error_us(item) if path == POLLED else 0.0
            fall = Waterfall(
                path=path, level=level.name, parts=parts, whole_us=whole_us, n=whole.n, clock_error_us=error_us
            )
            found.append(fall)
    return found


def _rest(stages: Stages, path: str, level: Level, queue_us: float, left_us: float) -> Iterable[Part]:
    """The stages after the hand-over. A client reports only the mean time in its queue, so percentiles are not
    split."""
    appended_us = _us(stages.send_to_append, level)
    after_us = _us(stages.append_to_ack if path == ACKED else stages.append_to_poll, level)
    if appended_us is not None and after_us is not None:
        return (
            *_split(appended_us, queue_us, level),
            Part(series=REPLICATION if path == ACKED else FETCH, us=after_us),
        )
    if path == ACKED:
        acked_us = _us(stages.send_to_ack, level)
        return () if acked_us is None else _split(acked_us, queue_us, level)
    # The leader's time of appending is not known, and percentiles cannot be subtracted.
    return _split(left_us, 0.0, level) if level is MEAN else ()


def _split(us: float, queue_us: float, level: Level) -> tuple[Part, ...]:
    if level is MEAN and 0 < queue_us < us:
        return (Part(series=QUEUE, us=queue_us), Part(series=WIRE, us=us - queue_us))
    return (Part(series=UNSPLIT, us=us),)


def _says_nothing(fall: Waterfall) -> bool:
    """Whether nearly all of it is one stage that could not be split. The bar of such a waterfall shows only the
    whole."""
    unsplit_us = sum(part.us for part in fall.parts if part.series == UNSPLIT)
    return unsplit_us >= _UNSPLIT_SHARE_MAX * sum(part.us for part in fall.parts)


def bars_of(labelled: Iterable[tuple[str, Waterfall]]) -> Bars:
    """Bars of the waterfalls that show more than their whole. The tables have all waterfalls."""
    stages: list[Bar] = []
    wholes: list[Whole] = []
    clock: list[BarBand] = []
    for label, fall in labelled:
        if _says_nothing(fall):
            continue
        at_us, lines = 0.0, "|".join(textwrap.wrap(label, _LABEL_WIDTH, break_on_hyphens=False))
        for part in fall.parts:
            stages.append(
                Bar(
                    label=lines,
                    title=label,
                    stage=part.series,
                    start=round(at_us / 1000, 4),
                    end=round((at_us + part.us) / 1000, 4),
                    ms=round(part.us / 1000, 3),
                )
            )
            at_us += part.us
        wholes.append(Whole(label=lines, title=label, whole=round(fall.whole_us / 1000, 4), n=fall.n))
        if error_us := known_error_us(fall.clock_error_us):
            whole_ms, error_ms = fall.whole_us / 1000, error_us / 1000
            low, high = max(0.0, round(whole_ms - error_ms, 4)), round(whole_ms + error_ms, 4)
            clock.append(BarBand(label=lines, title=label, low=low, high=high))
    return Bars(stages=tuple(stages), wholes=tuple(wholes), clock=tuple(clock))


def cell_stages(item: Judged) -> CellStages:
    stages = shown_stages(item)
    measured = stages.by_name()
    rows = tuple(
        _stage_row(name, words, measured[name], end_to_end_error_us(item) if name in BETWEEN_HOSTS else 0.0)
        for name, words in STAGE_WORDS.items()
        if name in measured
    )
    bars = bars_of((f"{fall.level}, {fall.path}", fall) for fall in in_order(waterfalls(item)))
    return CellStages(
        rows=rows,
        bars=bars,
        not_shown=words_of_not_shown(item),
        has_percentiles=any(not one.title.startswith(MEAN.name) for one in bars.wholes),
        is_closed_loop=is_closed_loop(item.facts.cell),
        failed=stages.censored.failed,
        unknown=stages.censored.unknown,
    )


def _stage_row(name: str, words: str, figures: StageFigures, error_us: float) -> StageRow:
    return StageRow(
        stage=name, words=words, n=figures.n, us=(*(level.us(figures) for level in LEVELS), figures.max_us),
        negative=figures.negative, clock_error_us=known_error_us(error_us),
    )  # fmt: skip


def waterfall_figures(judged: Sequence[Judged]) -> WaterfallFigures:
    """Figures over all cells. A way without measurements has no chart."""
    ways = _over_cells(judged)
    drawn = [way for way in ways if way.is_drawn]
    return WaterfallFigures(
        charts=tuple(
            WayChart(
                name=way.name,
                heading=way.heading,
                bars=bars_of(way.falls[:LABELS_MAX]),
                undrawn=_undrawn(way.unsplit) if way.unsplit else "",
            )
            for way in drawn
        ),
        without=(
            *(f"{way.heading}: not drawn, because {_WHY_UNSPLIT}." for way in ways if not way.is_drawn),
            *_without_append(judged),
        ),
        rows=tuple(_mean_row(way.path, label, fall) for way in ways for label, fall in way.falls),
        more=max(0, *(len(way.falls) - LABELS_MAX for way in ways)) if ways else 0,
    )


_WHY_UNSPLIT: Final = "in most cells nearly the whole time is in one stage that could not be split"


def _without_append(judged: Sequence[Judged]) -> list[str]:
    """One sentence for each reason, with the cells that have it."""
    titles: dict[str, list[str]] = {}
    for item in judged:
        if sentence := words_of_not_shown(item):
            own = titles.setdefault(sentence, [])
            own += [] if item.facts.cell.title in own else [item.facts.cell.title]
    return [
        f"{', '.join(names[:_NAMED_MAX])}{f' and {len(names) - _NAMED_MAX} more' if len(names) > _NAMED_MAX else ''}: "
        f"{sentence}"
        for sentence, names in titles.items()
    ]


def _undrawn(titles: Sequence[str]) -> str:
    return f"Not drawn, because nearly all of its time could not be split (the table has it): {'; '.join(titles)}."


def _mean_row(heading: str, label: str, fall: Waterfall) -> MeanRow:
    return MeanRow(
        path=heading,
        label=label,
        parts=tuple(sum(part.us for part in fall.parts if part.series == name) or None for name in SERIES),
        whole_us=fall.whole_us,
        n=fall.n,
        clock_error_us=known_error_us(fall.clock_error_us),
    )


def in_order(falls: Sequence[Waterfall]) -> list[Waterfall]:
    return [fall for path in (ACKED, POLLED) for fall in falls if fall.path == path and len(fall.parts) > 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """The bars of one chart over cells, by title."""

    name: str
    path: str
    heading: str
    falls: Sequence[tuple[str, Waterfall]]

    @property
    def unsplit(self) -> list[str]:
        return [title for title, fall in self.falls if _says_nothing(fall)]

    @property
    def is_drawn(self) -> bool:
        """False if most cells have no bar: a chart of the few others would mislead."""
        return 2 * len(self.unsplit) < len(self.falls)


def _over_cells(judged: Sequence[Judged]) -> list[_Way]:
    """Cells under faults and closed loops have their own charts. They have latencies of seconds, from the time without
    a leader or from the queue of a ceiling. Beside these, the milliseconds of the other cells could not be seen."""
    faulted = [item for item in judged if item.facts.cell.kind is CellKind.CHAOS]
    calm = [item for item in judged if item.facts.cell.kind is not CellKind.CHAOS]
    groups = (
        ("", "", False, [item for item in calm if not is_closed_loop(item.facts.cell)]),
        ("-under-faults", f", {UNDER_FAULTS}", False, faulted),
        ("-closed-loop", f", {CLOSED_LOOP}", True, [item for item in calm if is_closed_loop(item.facts.cell)]),
    )
    ways = [
        _Way(
            name=f"{name}{suffix}",
            path=f"{path}{words}",
            heading=f"{_FROM[is_closed]} {path}{words}",
            falls=_means(items, path),
        )
        for name, path in (("acked", ACKED), ("polled", POLLED))
        for suffix, words, is_closed, items in groups
    ]
    return [way for way in ways if way.falls]


def _means(judged: Sequence[Judged], path: str) -> list[tuple[str, Waterfall]]:
    """One row for each title. Its repetitions are joined, weighted by their records."""
    by_title: dict[str, list[Waterfall]] = {}
    for item in judged:
        for fall in waterfalls(item):
            if fall.level == MEAN.name and fall.path == path and fall.n:
                by_title.setdefault(item.facts.cell.title, []).append(fall)
    return [(title, _joined(falls)) for title, falls in by_title.items()]


def _joined(falls: Sequence[Waterfall]) -> Waterfall:
    total = sum(fall.n for fall in falls)
    sums = dict.fromkeys(SERIES, 0.0)
    for fall in falls:
        for part in fall.parts:
            sums[part.series] += part.us * fall.n / total
    return Waterfall(
        path=falls[0].path,
        level=falls[0].level,
        parts=tuple(Part(series=name, us=us) for name, us in sums.items() if us),
        whole_us=sum(fall.whole_us * fall.n for fall in falls) / total,
        n=total,
        clock_error_us=max(fall.clock_error_us for fall in falls),
    )
