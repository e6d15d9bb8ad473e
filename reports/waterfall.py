"""Where the time of a record goes: the stages between its times, as waterfalls, their table and results/stages.csv.

The figures are those that the load processes counted in the measured window (`outcome.health.stages`). Means add up, so
the chart over all cells is made of means; a percentile of a whole is not the sum of the percentiles of its parts, and
the charts of single cells, which show both, mark the whole beside them. Pure.
Shown by tests/reports/test_reports_waterfall.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import altair as alt

from reports.model import Json
from reports.outputs import Judged
from reports.sweep.behaviour import mean_record_queue_us

LABELS_MAX: Final = 40  # of the chart over all cells; the table has all
LEVELS: Final = (
    ("mean", "mean_us"), ("p50", "p50_us"), ("p90", "p90_us"), ("p99", "p99_us"), ("p99.9", "p999_us"),
)  # fmt: skip
LAG, QUEUE, WIRE, REPLICATION, FETCH, UNSPLIT = (
    "schedule lag", "queue and linger", "wire and broker", "replication, way back", "fetch wait and poll", "not split",
)  # fmt: skip
SERIES: Final = (LAG, QUEUE, WIRE, UNSPLIT, REPLICATION, FETCH)  # as they follow one another
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    series: str
    us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """One way at one level. `whole_us` is measured by itself; only of means is it the sum of the parts."""

    path: str
    level: str
    parts: tuple[Part, ...]
    whole_us: float
    n: int


def stages_of(item: Judged) -> Json:
    health = item.facts.cell.outcome.get("health")
    found = health.get("stages") if isinstance(health, dict) else None
    return found if isinstance(found, dict) else {}


def _figure(stages: Json, stage: str, column: str) -> float | None:
    found = stages.get(stage)
    value = found.get(column) if isinstance(found, dict) else None
    return float(value) if isinstance(value, int | float) else None


def waterfalls(item: Judged) -> list[Waterfall]:
    """Every level that the sample carries, on both ways."""
    stages = stages_of(item)
    queue_us = mean_record_queue_us(item.facts) or 0.0
    found = []
    for level, column in LEVELS:
        for path, whole in ((ACKED, "intended_to_ack"), (POLLED, "intended_to_poll")):
            whole_us, lag_us = _figure(stages, whole, column), _figure(stages, "schedule_lag", column)
            if whole_us is None or lag_us is None:
                continue
            rest = _rest(stages, path, level, column, queue_us, whole_us - lag_us)
            parts = (Part(series=LAG, us=lag_us), *(part for part in rest if part.us > 0))
            n = int(_figure(stages, whole, "n") or 0)
            found.append(Waterfall(path=path, level=level, parts=parts, whole_us=whole_us, n=n))
    return found


def _rest(stages: Json, path: str, level: str, column: str, queue_us: float, left_us: float) -> Iterable[Part]:
    """What follows the hand-over. A client tells the time in its queue as a mean only, so percentiles keep it in."""
    appended_us = _figure(stages, "send_to_append", column)
    after_us = _figure(stages, "append_to_ack" if path == ACKED else "append_to_poll", column)
    if appended_us is not None and after_us is not None:
        return (
            *_split(appended_us, queue_us, level),
            Part(series=REPLICATION if path == ACKED else FETCH, us=after_us),
        )
    if path == ACKED:
        acked_us = _figure(stages, "send_to_ack", column)
        return () if acked_us is None else _split(acked_us, queue_us, level)
    # Without the leader's time of appending, and of percentiles nothing can be subtracted.
    return _split(left_us, 0.0, level) if level == "mean" else ()


def _split(us: float, queue_us: float, level: str) -> tuple[Part, ...]:
    if level == "mean" and 0 < queue_us < us:
        return (Part(series=QUEUE, us=queue_us), Part(series=WIRE, us=us - queue_us))
    return (Part(series=UNSPLIT, us=us),)


def rows(labelled: Iterable[tuple[str, Waterfall]]) -> dict[str, list[Json]]:
    """Data sets of one chart."""
    stages: list[Json] = []
    wholes: list[Json] = []
    for label, fall in labelled:
        at_us = 0.0
        for part in fall.parts:
            stages.append(
                {
                    "label": label,
                    "stage": part.series,
                    "start": round(at_us / 1000, 4),
                    "end": round((at_us + part.us) / 1000, 4),
                    "ms": round(part.us / 1000, 3),
                }
            )
            at_us += part.us
        wholes.append({"label": label, "whole": round(fall.whole_us / 1000, 4), "n": fall.n})
    return {"stages": stages, "wholes": wholes}


def charts(judged: Sequence[Judged]) -> dict[str, Json]:
    """Chart name -> entry in the page: means of all cells for each way, and all levels of each cell."""
    found: dict[str, Json] = {}
    for name, _, falls in _over_cells(judged):
        data = rows(falls[:LABELS_MAX])
        if data["stages"]:
            found[f"waterfall-{name}"] = {"spec": "waterfall", "data": data}
    for item in judged:
        data = rows((f"{fall.level}, {fall.path}", fall) for fall in in_order(waterfalls(item)))
        if data["stages"]:
            found[f"stages-{item.facts.cell.cell_id}"] = {"spec": "waterfall", "data": data}
    return found


def in_order(falls: Sequence[Waterfall]) -> list[Waterfall]:
    return [fall for path in (ACKED, POLLED) for fall in falls if fall.path == path and len(fall.parts) > 1]


def _over_cells(judged: Sequence[Judged]) -> list[tuple[str, str, list[tuple[str, Waterfall]]]]:
    """Name, heading and bars of each chart over cells. Cells under faults have charts of their own: seconds without a
    leader would flatten the milliseconds of the others."""
    undisturbed = [item for item in judged if item.facts.cell.kind != "chaos"]
    faulted = [item for item in judged if item.facts.cell.kind == "chaos"]
    found = []
    for name, path in (("acked", ACKED), ("polled", POLLED)):
        found.append((name, path, _means(undisturbed, path)))
        found.append((f"{name}-under-faults", f"{path}, {UNDER_FAULTS}", _means(faulted, path)))
    return [chart for chart in found if chart[2]]


def _means(judged: Sequence[Judged], path: str) -> list[tuple[str, Waterfall]]:
    """One a title: repetitions are joined, each with the weight of its records."""
    by_title: dict[str, list[Waterfall]] = {}
    for item in judged:
        for fall in waterfalls(item):
            if fall.level == "mean" and fall.path == path and fall.n:
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
    )


HEADER: Final = ("cell_id", "stage", "n", *(column for _, column in LEVELS), "max_us", "negative", "failed", "unknown")


def table(judged: Sequence[Judged]) -> tuple[list[str], list[list[object]]]:
    """Header and rows of stages.csv. Sends without an end are counted beside: they are in no percentile."""
    found: list[list[object]] = []
    for item in judged:
        stages = stages_of(item)
        censored = stages.get("censored") or {}
        for stage in STAGE_WORDS:
            if stage not in stages:
                continue
            columns = ("n", *(column for _, column in LEVELS), "max_us", "negative")
            figures = [stages[stage].get(column) for column in columns]
            ends = [censored.get("failed"), censored.get("unknown")]
            found.append([item.facts.cell.cell_id, stage, *figures, *ends])
    return list(HEADER), found


def cell_rows(item: Judged) -> list[Json]:
    """The table under a cell's chart."""
    stages = stages_of(item)
    columns = (*(column for _, column in LEVELS), "max_us")
    return [
        {"words": words, "n": stages[stage].get("n"), "us": [stages[stage].get(column) for column in columns]}
        for stage, words in STAGE_WORDS.items()
        if stage in stages
    ]


def view(judged: Sequence[Judged]) -> Json:
    """What the section over all cells needs; empty without figures."""
    drawn = _over_cells(judged)
    if not drawn:
        return {}
    return {
        "charts": [(name, heading) for name, heading, _ in drawn],
        "series": SERIES,
        "rows": [
            {
                "path": heading,
                "label": label,
                "parts": [sum(part.us for part in fall.parts if part.series == name) or None for name in SERIES],
                "whole_us": fall.whole_us,
                "n": fall.n,
            }
            for _, heading, falls in drawn
            for label, fall in falls
        ],
        "more": max(0, *(len(falls) - LABELS_MAX for _, _, falls in drawn)),
    }


def specification() -> Json:
    """Stacked bars of the stages with the whole as a tick; page.js gives the words on the left their room."""
    y = alt.Y("label:N", title=None, sort=None, axis=alt.Axis(ticks=False, domain=False))
    stages = (
        alt.Chart(alt.NamedData("stages"))
        .mark_bar(height=12)
        .encode(
            x=alt.X("start:Q", title="milliseconds since the record was due", axis=alt.Axis(format=",~r", tickCount=6)),
            x2="end:Q",
            y=y,
            color=alt.Color(
                "stage:N", scale=alt.Scale(domain=list(SERIES)), legend=alt.Legend(title=None, symbolType="square")
            ),
            tooltip=["label:N", "stage:N", alt.Tooltip("ms:Q", format=",.3f")],
        )
    )
    wholes = (
        alt.Chart(alt.NamedData("wholes"))
        .mark_tick(style="whole", thickness=2, height=18)
        .encode(x="whole:Q", y=y, tooltip=["label:N", alt.Tooltip("whole:Q", title="measured whole, ms"), "n:Q"])
    )
    layers: Any = alt.layer(stages, wholes).properties(height=alt.Step(20), width=500)
    result: Json = layers.to_dict(validate=False)
    return {**result, "usermeta": {"data": "stages", "field": "label", "limit": 260}}
