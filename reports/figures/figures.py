"""All figures of a run, computed once: the page, the tables and the documents are written from it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pandas as pd

from reports.evidence.asked import is_closed_loop
from reports.figures.cell import CellFigures, cell_figures
from reports.figures.client_properties import client_properties
from reports.figures.generator import GeneratorFigures, generator_figures
from reports.figures.knobs import KnobRow, Limits, batch_words, knob_rows, limits_of
from reports.figures.measurements import measure
from reports.figures.overview.overview import Overview, overview_of
from reports.figures.price import Price, PricePoint, price_of_safety
from reports.figures.price_names import PriceName, price_names
from reports.figures.search import SearchFigures, search_figures
from reports.figures.settings import Settings, settings_of
from reports.figures.suites import SuiteFigures, suite_figures
from reports.figures.sweep.capacity import capacities
from reports.figures.sweep.figures import RatioLimits, SweepFigures, ratio_limits, sweep_figures
from reports.figures.sweep.observations import observe
from reports.figures.sweep.sweep_analysis import analyse_sweep
from reports.figures.sweep.telling import throughput_tells
from reports.figures.waterfall import WaterfallFigures, waterfall_figures
from reports.judge.judged import Judged, exit_code, overall
from reports.judge.run_limits import RunLimit, run_limits
from reports.read.cell import Run
from reports.read.model import CORRECTED, CellFacts
from runlog.records.codec import to_json
from runlog.records.measurements import Measurement
from runlog.records.verdicts import Result

_KNOB_MEASURES: Final = ("p99", "records_per_batch")  # and what says how fast it is


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """What the run says of itself; None and empty where it does not."""

    analysis_id: str
    title: str
    name: str  # The run's name, else that of its directory.
    run_id: str | None
    engine: str | None
    seed: int | None
    t0_wall: str | None
    versions: Mapping[str, str] | None
    host: Mapping[str, object]  # what is known of it
    command: str
    notes: tuple[str, ...]
    problems: tuple[str, ...]
    again: str  # the command that carries it out again, with its seed
    limits: tuple[RunLimit, ...]  # Limits of several cells, or of the run itself.
    verdict: Result
    exit_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    run: RunFigures
    cells: tuple[CellFigures, ...]
    suites: SuiteFigures  # The suites of junit.xml.
    overview: Overview
    price: Price
    price_drawn: tuple[PricePoint, ...]  # none where there is only throughput, and it does not tell
    price_names: tuple[PriceName, ...]  # Only those that are drawn.
    throughput_tells: bool  # whether a sweep cell fell short of its rate: else throughput is what was asked for
    knobs: Mapping[str, tuple[KnobRow, ...]]
    knob_measures: tuple[str, ...]  # what is drawn of each knob
    knob_batches: Mapping[str, str]  # The key is the knob. The value says whether records per batch tell why.
    knob_limits: Limits
    sweep: SweepFigures | None
    effect_limits: RatioLimits
    generator: GeneratorFigures
    waterfall: WaterfallFigures
    search: SearchFigures | None
    settings: Settings
    measurements: tuple[Measurement, ...]
    slots: pd.DataFrame  # All cells, results/time.csv. Empty where nothing was measured.


def figures_of(run: Run, judged: Sequence[Judged], limits: Sequence[RunLimit] | None = None) -> Figures:
    """`limits` are those of the run, where somebody judged them already (some may be broken and allowed)."""
    if limits is None:
        limits = run_limits(run.record.limits, judged, run.search)
    observations = observe(judged)
    analysis = analyse_sweep(judged, observations)
    sweep = _with_all_properties(sweep_figures(analysis), judged) if analysis else None
    capacity, cores = capacities(observations), run.record.host.cores
    knobs = knob_rows(judged, capacity)
    cells = tuple(cell_figures(item, capacity.get(item.facts.cell.cell_id), cores) for item in judged)
    generator = generator_figures(judged, run.record.certification)
    tells = throughput_tells(observations)
    summary, price = _run(run, judged, limits), price_of_safety(judged, analysis)
    drawn = price.points if tells or price.at_ceilings else ()
    found = search_figures(run.search, judged) if run.search else None
    return Figures(
        run=summary,
        cells=cells,
        suites=suite_figures(cells, summary.problems, [one.check for one in limits], summary.t0_wall),
        overview=overview_of(
            run, judged, cells, sweep=sweep, generator=generator, search=found, limits=[one.check for one in limits]
        ),
        price=price,
        price_drawn=drawn,
        price_names=price_names(drawn),
        throughput_tells=tells,
        knobs=knobs,
        knob_measures=_knob_measures(capacity, has_throughput=tells),
        knob_batches={knob: batch_words(rows) for knob, rows in knobs.items()},
        knob_limits=limits_of(knobs),
        sweep=sweep,
        effect_limits=sweep.limits if sweep else ratio_limits(()),
        generator=generator,
        waterfall=waterfall_figures(judged),
        search=found,
        settings=settings_of(judged),
        measurements=tuple(measure(judged, observations)),
        slots=_slots(judged),
    )


def _knob_measures(capacity: Mapping[str, float], *, has_throughput: bool) -> tuple[str, ...]:
    speed = "capacity" if capacity else "throughput" if has_throughput else ""
    return (speed, *_KNOB_MEASURES) if speed else _KNOB_MEASURES


def _with_all_properties(sweep: SweepFigures, judged: Sequence[Judged]) -> SweepFigures:
    """The recommended configuration as a file that can be used: the sweep itself knows only what it varied."""
    point = sweep.analysis.recommendation.point
    chosen = next((item for item in judged if point and item.facts.cell.cell_id == point.cell_id), None)
    if chosen is None:
        return sweep
    return replace(sweep, recommendation=replace(sweep.recommendation, properties=client_properties(chosen)))


def _run(run: Run, judged: Sequence[Judged], limits: Sequence[RunLimit]) -> RunFigures:
    record, directory = run.record, Path(run.directory).name
    checks = [one.check for one in limits]
    return RunFigures(
        analysis_id=run.analysis_id,
        title=record.suite or record.run_id or directory,
        name=record.run_id or directory,
        run_id=record.run_id,
        engine=record.engine,
        seed=record.seed,
        t0_wall=record.t0_wall,
        versions=record.versions or None,
        host={name: value for name, value in to_json(record.host).items() if value not in (None, "")},
        command=shlex.join(record.argv),
        notes=tuple(run.notes),
        problems=tuple(run.problems),
        again=record.command,
        limits=tuple(limits),
        verdict=overall(judged, run.problems, checks),
        exit_code=exit_code(judged, run.problems, checks),
    )


def _told_slots(facts: CellFacts) -> pd.DataFrame:
    """Nothing is corrected in a closed loop."""
    slots = facts.slots.assign(cell_id=facts.cell.cell_id)
    if is_closed_loop(facts.cell):
        slots = slots.assign(**{name: float("nan") for name in slots.columns if name.startswith(f"{CORRECTED}_")})
    return slots


def _slots(judged: Sequence[Judged]) -> pd.DataFrame:
    slots = [_told_slots(item.facts) for item in judged if len(item.facts.slots)]
    return pd.concat(slots, ignore_index=True) if slots else pd.DataFrame()
