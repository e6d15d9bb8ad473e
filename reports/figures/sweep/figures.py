"""Everything that the report shows of a sweep: texts, tables and the data of its charts, computed once. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from reports.figures.statistics.variance import Estimate
from reports.figures.sweep.effects import judgement
from reports.figures.sweep.fork_scatter import how_many_clusters, words
from reports.figures.sweep.front import Damage, Point
from reports.figures.sweep.levels import level_of, predicted_levels
from reports.figures.sweep.number_words import change, effect_size, figure, significant
from reports.figures.sweep.observations import BY_NAME, MEASURES, P99, Measure, configuration_text, is_on_jvm
from reports.figures.sweep.surface_names import ON_FRONT, ON_LOG_AXIS, SurfaceName, surface_names
from reports.figures.sweep.sweep_analysis import SweepAnalysis
from reports.figures.sweep.tables import Table, effect_records, interaction_records, tables
from reports.figures.sweep.why import explain
from reports.figures.told_columns import ToldColumns, told_columns
from runlog.records.sweep import EffectRecord, InteractionRecord, Level, PredictedFigure

# Attribute of Behaviour -> heading, factor.
BEHAVIOUR: Final[Mapping[str, tuple[str, float]]] = {
    "records_per_batch": ("rec/batch", 1),
    "fill": ("fill %", 100),
    "records_per_request": ("rec/request", 1),
    "requests_per_s": ("requests/s", 1),
    "queue_ms": ("wait of a batch ms", 1),
    "request_ms": ("round trip of a request ms", 1),
    "retries": ("retries", 1),
    "buffer_wait_ms": ("wait for memory ms", 1),
    "backpressure_sends": ("refused for space", 1),
    "compression_ratio": ("compression", 1),
    "wire_bytes_per_record": ("B/record", 1),
    "broker_cpu_us_per_record": ("broker CPU µs/rec", 1),
    "broker_cpu_without_compiler_us_per_record": ("without JIT compiler", 1),
    "compiler_us_per_record": ("JIT compiler µs/rec", 1),
    "collector_us_per_record": ("GC µs/rec", 1),
    "client_cpu_us_per_record": ("client CPU µs/rec", 1),
}


WITH_MORE: Final = " +"  # after a value that needs another setting changed with it
_SHORT: Final = {"max.in.flight.requests.per.connection": "max.in.flight", "enable.idempotence": "idempotence"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRow:
    label: str
    setting: str
    reference: str
    ratio: float
    low: float
    high: float
    judgement: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectBlock:
    """Effects of all settings on one measure."""

    title: str
    rows: tuple[EffectRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionRow:
    measure: str
    pair: str
    detail: str
    strength: float  # logarithm of the ratio of ratios
    text: str
    clear: bool
    mark: str
    inseparable: str
    short: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SurfacePoint:
    """`lane` says what a configuration may lose, and what it lost under faults."""

    title: str
    settings: str
    lane: str
    damage: str
    x: float
    low: float
    high: float
    front: str
    share: float
    figure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SurfaceRow:
    title: str
    cell_id: str
    contract: str
    damage: str
    share: float
    figures: tuple[str, ...]  # One for each of MEASURES.


@dataclass(frozen=True, slots=True, kw_only=True)
class BehaviourRow:
    title: str
    cell_id: str
    state: str
    values: tuple[str, ...]  # One for each of BEHAVIOUR.


@dataclass(frozen=True, slots=True, kw_only=True)
class SensitivityRow:
    title: str
    scatter: str
    repetitions: int
    smallest: str
    needed: int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendationText:
    sentences: tuple[str, ...]
    properties: str  # lines of a client's configuration file


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioLimits:
    """One scale for all effect charts."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFigures:
    analysis: SweepAnalysis
    clusters: str
    fork_scatter: tuple[str, ...]
    repeated: bool
    effects: Mapping[str, EffectBlock]  # The key is the measure. A measure without a usable figure has none.
    interactions: tuple[InteractionRow, ...]
    why_no_interactions: str
    surface: Mapping[str, tuple[SurfacePoint, ...]]  # The key is the measure. One point alone is no surface.
    surface_names: Mapping[str, tuple[SurfaceName, ...]]  # The key is the measure, as in `surface`.
    surface_rows: tuple[SurfaceRow, ...]
    why: tuple[str, ...]
    behaviour: tuple[BehaviourRow, ...]
    behaviour_table: ToldColumns[str]  # the values of those rows
    sensitivity: tuple[SensitivityRow, ...]
    recommendation: RecommendationText
    limits: RatioLimits
    levels: tuple[Mapping[str, Level], ...]  # Each point of the analysis has a map, with the measure as the key.
    predicted: Mapping[str, PredictedFigure]  # The key is the measure.
    combination_p99: Level | None
    tables: Mapping[str, Table]  # The key is the file name below results/.
    effect_records: tuple[EffectRecord, ...]
    interaction_records: tuple[InteractionRecord, ...]


def sweep_figures(analysis: SweepAnalysis) -> SweepFigures:
    reasons = [one.why_no_interactions for one in analysis.effects.values() if one.why_no_interactions]
    combination = analysis.recommendation.combination
    behaviour = _behaviour(analysis)
    surfaces = {m.name: points for m in MEASURES if len(points := _surface(analysis, m)) > 1}
    return SweepFigures(
        analysis=analysis,
        clusters=how_many_clusters(analysis.means, on_jvm=is_on_jvm(analysis.observations)),
        fork_scatter=tuple(words(item) for item in analysis.fork_scatters),
        repeated=any(one.repeated for one in analysis.means.values()),
        effects=_effects(analysis),
        interactions=_interactions(analysis),
        why_no_interactions="; ".join(dict.fromkeys(reasons)),
        surface=surfaces,
        surface_names={name: surface_names(points, is_log=name in ON_LOG_AXIS) for name, points in surfaces.items()},
        surface_rows=tuple(_surface_row(point) for point in analysis.points),
        why=tuple(explain(analysis.observations, analysis.baseline)),
        behaviour=behaviour,
        behaviour_table=told_columns([title for title, _ in BEHAVIOUR.values()], [row.values for row in behaviour]),
        sensitivity=_sensitivity(analysis),
        recommendation=_recommendation(analysis),
        limits=ratio_limits(
            [one.estimate for name, own in analysis.effects.items() if name in analysis.telling for one in own.effects]
        ),
        levels=tuple({name: level_of(one, name) for name, one in point.levels.items()} for point in analysis.points),
        predicted=predicted_levels(analysis),
        combination_p99=level_of(combination.p99, P99) if combination and combination.p99 else None,
        tables=tables(analysis),
        effect_records=effect_records(analysis),
        interaction_records=interaction_records(analysis),
    )


def _effects(analysis: SweepAnalysis) -> dict[str, EffectBlock]:
    return {
        name: EffectBlock(
            title=BY_NAME[name].title,
            rows=tuple(
                EffectRow(
                    label=f"{_SHORT.get(effect.setting, effect.setting)}={effect.value}"
                    f"{WITH_MORE if (effect.setting, effect.value) in _with_more(analysis) else ''}",
                    setting=effect.setting,
                    reference=effect.reference,
                    ratio=ratio,
                    low=low,
                    high=high,
                    judgement=judgement(effect),
                    text=change(effect.estimate),
                )
                for effect in effects.effects
                for ratio, low, high in [_drawn(effect.estimate)]
            ),
        )
        for name, effects in analysis.effects.items()
        if effects.effects and name in analysis.telling
    }


def _with_more(analysis: SweepAnalysis) -> frozenset[tuple[str, str]]:
    """The (setting, value) pairs that cannot be changed alone. They need a change of another setting, which the sweep
    does not vary by itself."""
    base = set(analysis.baseline or ())
    return frozenset(
        pair for item in analysis.observations if item.note for pair in item.configuration if pair not in base
    )


def _interactions(analysis: SweepAnalysis) -> tuple[InteractionRow, ...]:
    return tuple(
        InteractionRow(
            measure=BY_NAME[item.measure].title,
            pair=" x ".join(item.settings),
            detail=f"{item.first} with {item.second}",
            strength=round(item.estimate.value, 4),
            text=text,
            clear=item.estimate.excludes_zero,
            mark="clear" if item.estimate.excludes_zero else "",
            inseparable=", ".join(item.inseparable) or "none",
            short=text.split(" (")[0] + (" ●" if item.estimate.excludes_zero else ""),
        )
        for name, effects in analysis.effects.items()
        if name in analysis.telling
        for item in effects.interactions
        for text in (change(item.estimate),)
    )


def _surface(analysis: SweepAnalysis, measure: Measure) -> tuple[SurfacePoint, ...]:
    """Empty for a measure without a usable figure."""
    points: list[SurfacePoint] = []
    for point in analysis.points if measure.name in analysis.telling else ():
        level = point.levels.get(measure.name)
        if level is None:
            continue
        value, low, high = _drawn(level, measure.scale)
        points.append(
            SurfacePoint(
                title=point.title,
                settings=configuration_text(point.ran_with),
                lane=f"{point.contract}|{_damage_text(point.damage)}",
                damage=point.damage.text(),
                x=value,
                low=low,
                high=high,
                front=ON_FRONT if point.on_front else "beaten by another",
                share=round(point.share_on_front, 2),
                figure=figure(level, measure),
            )
        )
    return tuple(points)


def _drawn(estimate: Estimate, scale: float = 1.0) -> list[float]:
    """The value and the ends of its bar. There is no bar if the interval is unknown."""
    numbers = estimate.ratio if estimate.is_bounded else (estimate.ratio[0],) * 3
    return [round(number * scale, 4) for number in numbers]


def _damage_text(damage: Damage) -> str:
    if not damage.cells:
        return "not tried under faults"
    lines = damage.struck or ("nothing damaged by faults",)
    return "|".join(lines if damage.is_own else ("cells like it:", *lines))


def _surface_row(point: Point) -> SurfaceRow:
    return SurfaceRow(
        title=point.title,
        cell_id=point.cell_id,
        contract=point.contract,
        damage=point.damage.text(),
        share=point.share_on_front,
        figures=tuple(
            figure(point.levels[measure.name], measure).replace(f" {measure.unit}", "", 1)
            if measure.name in point.levels
            else "–"
            for measure in MEASURES
        ),
    )


def _behaviour(analysis: SweepAnalysis) -> tuple[BehaviourRow, ...]:
    return tuple(
        BehaviourRow(
            title=item.title,
            cell_id=item.cell_id,
            state=item.state,
            values=tuple(
                "–" if (value := getattr(item.behaviour, name)) is None else significant(value * factor)
                for name, (_, factor) in BEHAVIOUR.items()
            ),
        )
        for item in analysis.observations
    )


def _sensitivity(analysis: SweepAnalysis) -> tuple[SensitivityRow, ...]:
    return tuple(
        SensitivityRow(
            title=BY_NAME[item.measure].title,
            scatter=f"{item.scatter:.1%}",
            repetitions=item.repetitions,
            smallest=effect_size(item.smallest_effect),
            needed=item.repetitions_for_target or "more than 1,000",
        )
        for item in analysis.sensitivities
    )


def _recommendation(analysis: SweepAnalysis) -> RecommendationText:
    own = analysis.recommendation
    return RecommendationText(
        sentences=tuple(own.sentences),
        properties="\n".join(f"{name}={value}" for name, value in own.point.ran_with) if own.point else "",
    )


def ratio_limits(effects: Sequence[Estimate]) -> RatioLimits:
    """The widest estimate with room for its interval, at least 0.8 to 1.25."""
    ratios = [one.ratio if one.is_bounded else (one.ratio[0],) * 3 for one in effects]
    low = min([0.8, *(max(lower, value / 3) for value, lower, _ in ratios)])
    high = max([1.25, *(min(upper, value * 3) for value, _, upper in ratios)])
    return RatioLimits(low=round(low * 0.95, 4), high=round(high * 1.05, 4))
