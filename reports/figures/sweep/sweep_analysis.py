"""Puts the analysis of a sweep together, and turns it into JSON, CSV tables and the rows behind the charts. No I/O.

Shown by tests/reports/test_reports_sweep.py on planted effects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from reports.figures.sweep.capacity import is_measured
from reports.figures.sweep.cell_means import CellMeans, cell_means
from reports.figures.sweep.choosing import choose
from reports.figures.sweep.effects import Effects, estimate_effects, smooth
from reports.figures.sweep.fork_scatter import fork_scatters
from reports.figures.sweep.front import Point, surface
from reports.figures.sweep.number_words import significant
from reports.figures.sweep.observations import (
    MEASURES,
    NOT_SUSTAINED,
    OK,
    P99,
    THROUGHPUT,
    Configuration,
    Observation,
)
from reports.figures.sweep.recommend import recommend
from reports.figures.sweep.recommendation import Inputs, Recommendation
from reports.figures.sweep.sensitivity import sensitivities
from reports.figures.sweep.telling import carried_all, telling
from reports.judge.judged import Judged
from runlog.quality.steadiness import CHANGING_KINDS, CLOSED
from runlog.records.cell import CellKind
from runlog.records.sweep import ForkScatter, Sensitivity

N = TypeVar("N", int, float)
_NAMED_MAX = 2  # cells that did not carry their load: more would hide every other warning


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepAnalysis:
    observations: tuple[Observation, ...]
    baseline: Configuration | None
    means: Mapping[str, CellMeans]
    effects: Mapping[str, Effects]
    points: tuple[Point, ...]
    sensitivities: tuple[Sensitivity, ...]
    fork_scatters: tuple[ForkScatter, ...]  # empty: one cluster
    recommendation: Recommendation
    warnings: tuple[str, ...]  # cells whose figures are not what they seem
    telling: tuple[str, ...]  # measures in which the configurations can differ

    @property
    def design(self) -> str:
        return next((effects.design for effects in self.effects.values()), "")

    @property
    def repetitions(self) -> int:
        return max((item.round for item in self.observations), default=0)

    @property
    def forks(self) -> int:
        """Clusters that the rounds were dealt over."""
        return len({item.fork for item in self.observations})


def analyse_sweep(judged: Sequence[Judged], observations: Sequence[Observation]) -> SweepAnalysis | None:
    """None if the run has fewer than two sweep configurations. `observations` are of the sweep's cells (`observe`)."""
    if len({item.configuration for item in observations}) < 2:
        return None
    baseline = next((item.configuration for item in observations if item.baseline), None)
    means, effects = _estimate(observations, baseline)
    points = surface(observations, means, judged)
    smallest = sensitivities(means, effects)
    inputs = Inputs(
        points=points,
        observations=observations,
        means=means,
        effects=effects,
        sensitivities=smallest,
        baseline=baseline,
        load=_load(judged),
        chosen_without=_chosen_without(observations, baseline, judged),
    )
    return SweepAnalysis(
        observations=tuple(observations),
        baseline=baseline,
        means=means,
        effects=effects,
        points=points,
        sensitivities=smallest,
        fork_scatters=fork_scatters(means),
        recommendation=recommend(inputs),
        warnings=tuple(_warnings(observations)),
        telling=telling(observations),
    )


def _estimate(
    observations: Sequence[Observation], baseline: Configuration | None
) -> tuple[Mapping[str, CellMeans], Mapping[str, Effects]]:
    """Means and effects by measure."""
    means = {
        measure.name: found
        for measure in MEASURES
        if (found := cell_means(observations, measure.name)) is not None and len(found.configurations) > 1
    }
    effects = {name: estimate_effects(one, baseline) for name, one in means.items()}
    # A rate never exceeds what was asked for; a model of products would let it.
    smoothed = {
        name: one if name == THROUGHPUT else smooth(one, effects[name], baseline) for name, one in means.items()
    }
    return smoothed, effects


def _chosen_without(
    observations: Sequence[Observation], baseline: Configuration | None, judged: Sequence[Judged]
) -> dict[int, Configuration]:
    """Cluster -> what the same rule chooses from the others; empty on one cluster. Faults know nothing of clusters
    that were measured, so damage counts in every choice."""
    forks = sorted({item.fork for item in observations})
    found: dict[int, Configuration] = {}
    for fork in forks if len(forks) > 1 else ():
        others = [item for item in observations if item.fork != fork]
        means, _ = _estimate(others, baseline)
        choice = choose(surface(others, means, judged), others, means)
        if choice is not None:
            found[fork] = choice.chosen.configuration
    return found


def _load(judged: Sequence[Judged]) -> str:
    """The load of the sweep in words; a figure that varies within the sweep is left out."""
    workloads = [item.facts.cell.record.workload for item in judged if item.facts.cell.kind is CellKind.SWEEP]
    parts = []
    rate = _common([workload.rate_per_s for workload in workloads])
    size = _common([workload.record_size_bytes for workload in workloads])
    compressibility = _common([workload.compressibility for workload in workloads])
    if rate is not None:
        parts.append(_rate_text({workload.schedule.kind for workload in workloads}, significant(rate)))
    if size is not None:
        parts.append(f"{size:,} B a record")
    if compressibility is not None:
        parts.append(f"of which a codec can take away {compressibility:.0%}")
    return ", ".join(parts) or "the loads of the cells"


def _common(values: Sequence[N | None]) -> N | None:
    """The value that all have. None if they differ, or if none has a value."""
    return values[0] if len(set(values)) == 1 else None


def _rate_text(kinds: set[str], rate: str) -> str:
    """`rate_per_s` is what is asked for only where the rate is the same all along."""
    if kinds == {CLOSED}:
        return f"a closed loop of at most {rate} records/s"
    if not kinds & {CLOSED, *CHANGING_KINDS}:
        return f"{rate} records/s asked"
    return f"a load that follows its schedule ({', '.join(sorted(kinds))})"


def _warnings(observations: Sequence[Observation]) -> list[str]:
    repeated = any(item.round > 1 for item in observations)

    def name(item: Observation) -> str:
        return f"{item.title}, repetition {item.repetition}" if repeated else item.title

    short = [item for item in observations if item.state == NOT_SUSTAINED]
    told = [item for item in observations if item.state != OK and (item not in short or len(short) <= _NAMED_MAX)]
    lines = [
        f"{name(item)}: {item.reason if item.state in item.reason else f'{item.state}, {item.reason}'}" for item in told
    ]
    if len(short) > _NAMED_MAX:
        lines.append(
            f"{len(short)} of {len(observations)} cells of the sweep did not carry their load (first "
            f"{name(short[0])}: {short[0].reason}); their p99 would be the length of the queue and is not compared"
        )
    disturbed = [item for item in observations if item.disturbed]
    if disturbed:
        lines.append(
            f"{len(disturbed)} of {len(observations)} cells of the sweep were disturbed by the host (first "
            f"{name(disturbed[0])}: {disturbed[0].disturbed}); "
            + (
                "it may have moved all figures to one side, which no interval shows"
                if repeated
                else "how far that moved their figures is not known"
            )
        )
    unsteady = [item for item in observations if item.unsteady]
    if unsteady:
        lines.append(
            f"{len(unsteady)} of {len(observations)} cells of the sweep were unsteady (first {name(unsteady[0])}: "
            f"{unsteady[0].unsteady}): the host or the brokers may be the cause, so their figures stay in"
        )
    warming = [item for item in observations if item.warming]
    if warming:
        lines.append(
            f"{len(warming)} of {len(observations)} cells of the sweep ran on brokers that were still warming (first "
            f"{name(warming[0])}: {warming[0].warming}); CPU per record is compared without it, p99 with it"
        )
    limited = [item for item in observations if item.library_limit]
    if limited:
        ceilings = sum(item.at_ceiling for item in observations)
        lines.append(
            f"{len(limited)} of {ceilings} ceilings (first {name(limited[0])}) are of the client's library: "
            f"{limited[0].library_limit}"
        )
    if any(item.compiler_unknown for item in observations):
        lines.append(
            "what the brokers' just-in-time compilers took was not recorded: broker CPU per record contains it and "
            "depends on the age of the brokers"
        )
    if carried_all(observations) and not is_measured(observations):
        lines.append(
            "every cell that was measured carried the rate that was asked for: throughput says nothing about capacity "
            "here and is not drawn, compare p99, CPU and bytes"
        )
    no_p99 = [item for item in observations if item.state == OK and P99 not in item.values and not item.at_ceiling]
    lines += [f"{item.title}: its p99 is not compared: {_why_no_p99(item)}" for item in no_p99]
    return list(dict.fromkeys(lines))


def _why_no_p99(item: Observation) -> str:
    if item.safety.startswith("promises nothing"):
        return "with acks=0 nobody acknowledges, only the end-to-end latency exists"
    return "too few samples carry a p99"
