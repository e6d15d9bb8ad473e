"""What the page inlines for its charts: the specifications, and each chart's data sets as columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from reports.figures.cell import CellFigures
from reports.figures.figures import Figures
from reports.figures.knobs import middles
from reports.figures.over_time import LATENCIES
from reports.figures.search import SearchFigures
from reports.figures.sweep.figures import SweepFigures
from reports.figures.sweep.surface_names import lines_in_a_lane
from reports.figures.waterfall import Bars
from reports.read.cell import Json
from reports.render import charts, section_charts, sweep_charts

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    specification: str  # The specification's name.
    data: Mapping[str, Json]  # data set -> columns


def payload(figures: Figures, drawn: Mapping[str, Chart]) -> Json:
    limits, effects = figures.knob_limits, figures.effect_limits
    return {
        "specs": {
            **charts.specifications(
                p99_max_ms=limits.p99_ms,
                capacity_min=limits.capacity_min,
                capacity_max=limits.capacity,
                throughput_max=limits.throughput,
                records_per_batch_max=limits.records_per_batch,
            ),
            **section_charts.specifications(with_search=figures.search is not None),
            **sweep_charts.specifications(
                ratio_low=effects.low,
                ratio_high=effects.high,
                lines_in_a_lane=lines_in_a_lane(figures.sweep.surface_names.values()) if figures.sweep else 1,
            ),
        },
        "charts": {name: {"spec": chart.specification, "data": chart.data} for name, chart in drawn.items()},
    }


def charts_of(figures: Figures) -> dict[str, Chart]:
    """Name on the page -> chart."""
    found: dict[str, Chart] = {}
    if figures.price_drawn:
        name = "price_at_ceilings" if figures.price.at_ceilings else "price"
        data = {"price": columns(figures.price_drawn), "names": columns(figures.price_names)}
        found["price"] = Chart(specification=name, data=data)
    for knob, rows in figures.knobs.items():
        for measure in figures.knob_measures:
            data = {"sweep": columns(rows), "middle": columns(middles(rows))}
            found[f"sweep-{measure}-{knob}"] = Chart(specification=f"sweep_{measure}", data=data)
    for cell in figures.cells:
        found |= _of_cell(cell)
    if figures.sweep is not None:
        found |= _of_sweep(figures.sweep)
    if figures.generator.shares:
        data = {"generator": columns(figures.generator.shares), "limit": columns(figures.generator.limits)}
        found["generator"] = Chart(specification="generator", data=data)
    for way in figures.waterfall.charts:
        found |= _waterfall(f"waterfall-{way.name}", way.bars)
    for cell in figures.cells:
        found |= _waterfall(f"stages-{cell.id}", cell.stages.bars)
    return found | (_of_search(figures.search) if figures.search is not None else {})


def columns(rows: Sequence[DataclassInstance]) -> Json:
    """Rows as columns: the page is half as large, and a line of script turns them back."""
    return {one.name: [_drawn(getattr(row, one.name)) for row in rows] for one in fields(rows[0])} if rows else {}


def _drawn(value: Any) -> Any:
    """A percentile that is not reached has no place on an axis."""
    return None if isinstance(value, float) and math.isinf(value) else value


def _of_cell(cell: CellFigures) -> dict[str, Chart]:
    own = cell.over_time
    names = ("rates", "latency", "spread", "clock", "faults", "isr", "leaders", "brokers")
    data = {name: columns(getattr(own, name)) for name in names}
    found = {f"time-{cell.id}": Chart(specification=_time(own.latencies), data=data)}
    if cell.own_requests is not None and cell.own_requests.points:
        told = {"requests": columns(cell.own_requests.points), "faults": data["faults"]}
        found[f"requests-{cell.id}"] = Chart(specification="requests", data=told)
    if cell.curve:
        found[f"curve-{cell.id}"] = Chart(
            specification="curve", data={"curve": columns(cell.curve), "clock": columns(cell.curve_clock)}
        )
    return found


def _time(latencies: Sequence[str]) -> str:
    """The specification that fits: with acks=0 latency is from end to end, where nothing was measured there is none."""
    if not latencies:
        return "time_without_latency"
    return "time" if latencies == LATENCIES else "time_end_to_end"


def _waterfall(name: str, bars: Bars) -> dict[str, Chart]:
    if not bars.stages:
        return {}
    data = {"stages": columns(bars.stages), "wholes": columns(bars.wholes), "clock": columns(bars.clock)}
    return {name: Chart(specification="waterfall", data=data)}


def _of_search(search: SearchFigures) -> dict[str, Chart]:
    trace = columns(search.trace)
    found = {
        "search-trace": Chart(
            specification="search_trace", data={"trace": {"try" if k == "number" else k: v for k, v in trace.items()}}
        )
    }
    if search.curve:
        data = {"curve": columns(search.curve), "limit": {"ms": [search.contract_p99_ms]}}
        found["search-curve"] = Chart(specification="search_curve", data=data)
    return found


def _of_sweep(sweep: SweepFigures) -> dict[str, Chart]:
    found: dict[str, Chart] = {}
    for name, block in sweep.effects.items():
        data: dict[str, Any] = {"effects": columns(block.rows), "one": {"ratio": [1]}}
        found[f"effects-{name}"] = Chart(specification="effects", data=data)
    if sweep.interactions:
        found["interactions"] = Chart(specification="interactions", data={"interactions": columns(sweep.interactions)})
    for name, points in sweep.surface.items():
        drawn = {"surface": columns(points), "names": columns(sweep.surface_names[name])}
        found[f"surface-{name}"] = Chart(specification=f"surface_{name}", data=drawn)
    return found
