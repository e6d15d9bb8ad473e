"""All figures that the page of one cell shows. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from reports.evidence.asked import achieved_ratio, is_closed_loop, unsent
from reports.evidence.configuration import configuration_of
from reports.figures.clock_bands import CurveBand, curve_bands, end_to_end_error_ms
from reports.figures.damage import KindOfDamage, OtherAnomaly, kinds_of_damage, other_anomalies
from reports.figures.gaps import gap_text
from reports.figures.host_share import HostShare, host_share
from reports.figures.knobs import settings_text
from reports.figures.latencies import CurvePoint, not_reached_sentences, percentile_curve, told_kind
from reports.figures.over_time import OverTime, over_time
from reports.figures.own_requests import OwnRequests, own_requests
from reports.figures.readers import ReaderRow, reader_rows
from reports.figures.recovery_words import recovery_sentences
from reports.figures.redelivery import redelivery_sentences
from reports.figures.replica_logs import PartitionPicture, pictures
from reports.figures.story import StoryFigures, stories_of
from reports.figures.timeline import TimelineStep, timeline_steps
from reports.figures.waterfall import CellStages, cell_stages
from reports.judge.anomalies import ANOMALIES, BY_NAME
from reports.judge.cell_source import CellSource
from reports.judge.checks import PASS, Verdict
from reports.judge.judged import Judged
from reports.judge.noise import disturbance
from reports.read.cell import Cell
from reports.read.model import (
    CORRECTED,
    PREDICTED_KINDS,
    Basis,
    CellFacts,
    Counts,
    IdentitySet,
    Latency,
    Recovery,
    answered_words,
)
from runlog.records.cell import EXTERNAL, CellKind, CellRecord, Expectation

SLOTS_SHOWN: Final = 150  # longer time tables are in results/time.csv
REFERENCE: Final = ("reference", "docker")  # Both run the project's own broker, one of them in containers.
_APACHE: Final = "kafka"
_APACHE_KAFKA: Final = "Apache Kafka"
_CATALOGUE: Final = re.compile(r"S\d+")
_EXPECTED_WORDS: Final[Mapping[Expectation, str]] = {
    Expectation.NONE: "none",
    Expectation.EXACT: "exactly those that the evidence predicts",
    Expectation.PREDICTED: "exactly those that the evidence predicts, and more than none",
    Expectation.ANY: "any number",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a reader must know before the figures: what the scenario does, why this outcome is right, its source."""

    scenario: str
    because: str
    expected: str
    source: str
    catalogue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRow:
    """One slot of the time table; latencies in microseconds, None where nothing was measured."""

    at_s: float
    intended: int
    sent: int
    acked: int
    received: int
    corrected_mean_us: float | None  # Only acknowledged records count.
    corrected_p99_us: float | None  # infinite if it is not reached
    corrected_max_us: float | None
    uncorrected_p99_us: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeTable:
    slot_ms: int
    slots: int
    rows: tuple[SlotRow, ...]  # The first slots.


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFigures:
    """The load that was due in the measured window, and what the load generator did."""

    window_s: float
    achieved: float | None  # share of the schedule that was handed over in time
    never_sent: int
    censored: int  # failed or unknown: they count as slower than all others
    generator_cpu_share: float | None  # A share of one core, used by the busiest process.
    redelivery: tuple[str, ...]  # a sentence for each reader that removes records which are delivered again


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFigures:
    """The plan of the cell, for the line beside its name."""

    repetition: int | None
    fork: int | None
    engine: str
    rate_per_s: float | None  # the mean rate of the schedule
    record_size_bytes: int | None
    all_settings: Mapping[str, str]  # The client's settings, and the swept ones of workload and topic.


@dataclass(frozen=True, slots=True, kw_only=True)
class CellFigures:
    """The figures of the catalogue are read from `source`. All other fields are computed here."""

    source: CellSource
    id: str
    title: str
    kind: CellKind
    client: str
    cluster: str  # the brokers' product and its version
    scenario: str | None
    case: str | None
    path: str
    seed: int | None
    command: str
    verdict: Verdict
    counts: Counts
    throughput_records_per_s: float
    throughput_interval: tuple[float, float] | None
    throughput_basis: Basis
    # The capacity of its configuration in its repetition. None: not measured, or not claimed.
    capacity_records_per_s: float | None
    steady_ratio: float | None
    latency: Mapping[str, Latency]
    told_latency: Mapping[str, Latency]  # the same for files and curves: nothing is corrected in a closed loop
    not_reached: tuple[str, ...]  # sentences on percentiles that fall on records which never came
    came_words: str  # It says which share of the records was acknowledged.
    readers: tuple[ReaderRow, ...]  # none for a cell with one group of readers
    end_to_end_clock_error_us: float | None  # between two load hosts; None: no record went from one to another
    lost: int | None
    observed: Mapping[str, IdentitySet]
    anomalies: Mapping[str, int]  # those that were seen
    gap_us: int | None
    gap_s: float | None
    gap_at_s: float | None
    gap_text: str | None  # seconds, with the bound of the clocks if they are several
    gap_clock_error_us: float | None  # acknowledgements on load hosts; None: all of one clock
    recovery: Recovery | None
    recovery_sentences: tuple[str, ...]
    load: LoadFigures
    time_table: TimeTable
    about: About | None
    brief: str
    settings: str
    steps: tuple[TimelineStep, ...]
    over_time: OverTime
    own_requests: OwnRequests | None  # What somebody's locustfile reported.
    curve: tuple[CurvePoint, ...]
    spectrum: tuple[tuple[float, float, int], ...]  # (quantile, us, records at most as slow)
    spectrum_of: str  # It names the latency.
    curve_clock: tuple[CurveBand, ...]  # how far its end-to-end points may be off
    stages: CellStages
    damage: Mapping[str, KindOfDamage]
    others: tuple[OtherAnomaly, ...]
    looked_for: int  # number of anomalies that were looked for, without the predicted kinds
    pictures: tuple[PartitionPicture, ...]
    stories: tuple[StoryFigures, ...]
    host: HostShare
    disturbed: str
    is_read_to_end: bool
    plan: PlanFigures
    began_s: float | None  # after the run's zero of time
    took_s: float  # from its start to its end, as far as known

    @property
    def faults(self) -> tuple[TimelineStep, ...]:
        """The steps that are faults, without those that only wait."""
        return self.over_time.faults

    @property
    def faults_proved(self) -> int:
        return sum(step.proved for step in self.faults)

    @property
    def is_open(self) -> bool:
        """Whether the page shows it unfolded."""
        return self.kind is CellKind.CHAOS or self.verdict.result != PASS

    def set_count(self, kind: str) -> int:
        return self.observed[kind].count if kind in self.observed else 0


def cell_figures(item: Judged, capacity_records_per_s: float | None = None, cores: int | None = None) -> CellFigures:
    """`capacity_records_per_s`: the capacity of its configuration, if it was measured. `cores` of the host."""
    facts, cell = item.facts, item.facts.cell
    source = CellSource(facts, capacity_records_per_s=capacity_records_per_s, cores=cores, result=item.verdict.result)
    configuration = configuration_of(cell)
    damage = kinds_of_damage(facts, configuration)
    steps = timeline_steps(cell)
    is_chaos = cell.kind is CellKind.CHAOS
    curve = percentile_curve(facts)
    kind = told_kind(facts)
    return CellFigures(
        source=source,
        id=cell.cell_id,
        title=cell.title,
        kind=cell.kind,
        client=cell.record.client,
        cluster=product(cell.record.engine, cell.record.engine_version),
        scenario=cell.record.scenario,
        case=cell.record.case,
        path=cell.record.path or "–",
        seed=cell.record.seed,
        command=cell.record.command,
        verdict=item.verdict,
        counts=facts.counts,
        throughput_records_per_s=facts.throughput_records_per_s,
        throughput_interval=facts.throughput_interval,
        throughput_basis=facts.throughput_basis,
        capacity_records_per_s=capacity_records_per_s,
        steady_ratio=facts.steady_ratio,
        latency=facts.latency,
        told_latency=source.told_latency,
        not_reached=not_reached_sentences(facts),
        came_words=answered_words(CORRECTED, facts.latency[CORRECTED]),
        readers=reader_rows(facts),
        end_to_end_clock_error_us=source.end_to_end_clock_error_us,
        lost=facts.lost,
        observed=facts.observed,
        anomalies={name: facts.anomaly_count(name) for name in BY_NAME if facts.anomaly_count(name)},
        gap_us=facts.gap_us,
        gap_s=None if facts.gap_us is None else facts.gap_us / 1e6,
        gap_at_s=None if facts.gap_start_us is None else (facts.gap_start_us - cell.span_us()[0]) / 1e6,
        gap_text=None if facts.gap_us is None else gap_text(facts.gap_us, cell.record.outcome.load_hosts),
        gap_clock_error_us=source.gap_clock_error_us,
        recovery=facts.recovery,
        recovery_sentences=recovery_sentences(cell, facts.recovery),
        load=_load(facts),
        time_table=_time_table(facts),
        about=_about(cell, damage) if is_chaos else None,
        brief=configuration.text() if is_chaos else "",
        settings=settings_text(cell) or configuration.text(),
        steps=steps,
        over_time=over_time(facts, steps),
        own_requests=own_requests(cell),
        curve=curve,
        spectrum=facts.latency[kind].spectrum,
        spectrum_of=kind.replace("_", " "),
        curve_clock=curve_bands(curve, end_to_end_error_ms(facts)),
        stages=cell_stages(item),
        damage=damage,
        others=other_anomalies(facts, configuration),
        looked_for=len(ANOMALIES) - len(PREDICTED_KINDS),
        pictures=tuple(pictures(facts)),
        stories=stories_of(facts),
        host=host_share(cell),
        disturbed=disturbance(facts),
        is_read_to_end=cell.is_read_to_end,
        plan=_plan(cell.record),
        began_s=None if cell.record.outcome.started_us is None else cell.record.outcome.started_us / 1e6,
        took_s=max(0, cell.span_us()[1] - cell.span_us()[0]) / 1e6,
    )


def _about(cell: Cell, damage: Mapping[str, KindOfDamage]) -> About:
    kinds: dict[str, list[str]] = {}
    for kind, found in damage.items():
        kinds.setdefault(_EXPECTED_WORDS[found.expected], []).append(kind)
    return About(
        scenario=cell.record.about,
        because=cell.record.note,
        expected="; ".join(f"{', '.join(names)}: {words}" for words, names in kinds.items()),
        source=cell.record.source.rstrip("."),
        catalogue=", ".join(tag for tag in cell.record.tags if _CATALOGUE.fullmatch(tag)),
    )


def _plan(cell: CellRecord) -> PlanFigures:
    return PlanFigures(
        repetition=cell.repetition,
        fork=cell.fork,
        engine=cell.engine,
        rate_per_s=cell.workload.rate_per_s,
        record_size_bytes=cell.workload.record_size_bytes,
        all_settings={**cell.factors, **cell.properties},
    )


def _load(facts: CellFacts) -> LoadFigures:
    start_us, end_us = facts.cell.window_us()
    health = facts.cell.record.outcome.health
    return LoadFigures(
        window_s=(end_us - start_us) / 1e6,
        achieved=achieved_ratio(facts),
        never_sent=unsent(facts.cell),
        censored=facts.counts.failed + facts.counts.unknown,
        generator_cpu_share=health.busiest_process_cpu_share,
        redelivery=tuple(redelivery_sentences(health)),
    )


def _time_table(facts: CellFacts) -> TimeTable:
    first_us, is_open = facts.cell.span_us()[0], not is_closed_loop(facts.cell)
    rows = tuple(
        SlotRow(
            at_s=(slot["t_us"] - first_us) / 1e6,
            intended=int(slot["intended"]),
            sent=int(slot["sent"]),
            acked=int(slot["acked"]),
            received=int(slot["received"]),
            corrected_mean_us=_measured(slot["corrected_mean_us"]) if is_open else None,
            corrected_p99_us=_measured(slot["corrected_p99_us"]) if is_open else None,
            corrected_max_us=_measured(slot["corrected_max_us"]) if is_open else None,
            uncorrected_p99_us=_measured(slot["uncorrected_p99_us"]),
        )
        for slot in facts.slots.head(SLOTS_SHOWN).to_dict("records")
    )
    return TimeTable(slot_ms=facts.slot_us // 1000, slots=len(facts.slots), rows=rows)


def _measured(value: float) -> float | None:
    """None if the value is missing for pandas."""
    return None if value != value else float(value)


def product(engine: str | None, version: str | None) -> str:
    """Which brokers ran, so that the reference broker is not taken for Apache Kafka."""
    if engine in REFERENCE:
        where = "in containers" if engine == "docker" else None
        return " ".join(filter(None, ("the project's reference broker", version, where, "(not Apache Kafka)")))
    if engine == _APACHE:
        return " ".join(filter(None, (_APACHE_KAFKA, (version or "").removeprefix(_APACHE_KAFKA).strip())))
    if engine == EXTERNAL:
        return "a cluster that the harness did not start"
    return " ".join(filter(None, (f"{engine or 'unknown'} cluster", version)))
