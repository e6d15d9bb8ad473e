"""results/sweep.json: the analysis of a sweep, for programs. `harness confirm` reads the recommendation.

A ratio of 1.05 means 5 % more. Intervals are 95 % intervals. A bound that is null is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from runlog.records.measurements import FigureState

SWEEP_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkScatter:
    """How far the clusters of a sweep lie apart in one measure."""

    measure: str
    forks: int
    rounds: int  # on each cluster
    between: float  # relative standard deviation between clusters, common to all configurations
    within: float  # relative standard deviation of a configuration's figure on one cluster, without `between`
    numbers: tuple[int, ...]  # They are those of the clusters that have a figure.
    offsets: tuple[float, ...]  # Each of these clusters has one, as a share: 0.03 is 3 % above the mean of all.


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A figure with its 95 % interval, if that is known."""

    value: float
    low: float | None
    high: float | None
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedFigure:
    """The figure that is expected of one more cluster, in the unit of the measure. `harness confirm` compares with
    it."""

    value: float
    low: float | None  # null: the sweep does not show it
    high: float | None
    df: float | None = None  # degrees of freedom of the interval; null: those of a normal distribution, or not known
    unit: str
    forks: int = 1  # number of clusters behind the prediction
    rounds: int = 1  # on each cluster
    flattery: float  # ratio: how much better the figure looks because it was chosen as the best
    level: Level  # what the sweep itself measured
    compiler: float | None = None  # Broker CPU has it: the compilers' part, left out of it. None: none, or included.


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinationRecord:
    """The combination of the best levels of all settings, which no cell had."""

    settings: Mapping[str, str]
    predicted_p99: Level | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecommendationRecord:
    settings: Mapping[str, str] | None  # null: nothing is recommended
    cell_id: str | None
    objective: str  # the measure that decided
    certainty: float | None  # share of draws in which it is the best, or within the margin of the best
    not_distinguishable: tuple[str, ...]
    sentences: tuple[str, ...]
    predicted: Mapping[str, PredictedFigure] | None  # The key is the measure.
    combination: CombinationRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRecord:
    """`value` against `reference` of one setting."""

    measure: str
    setting: str
    reference: str
    value: str
    ratio: float | None
    low: float | None
    high: float | None
    judgement: str  # better, worse, negligible, not clear
    basis: str  # between repetitions, or inside one run only


@dataclass(frozen=True, slots=True, kw_only=True)
class InteractionRecord:
    """How much the effect of the first setting changes when the second is changed too: a ratio of ratios."""

    measure: str
    first: str  # setting=value
    second: str
    ratio: float | None
    low: float | None
    high: float | None
    clear: bool
    inseparable: str  # other pairs that this design cannot separate from this one


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """The smallest effect on one measure that the sweep would have found."""

    measure: str
    scatter: float  # relative standard deviation of one repetition; with several on a cluster: of their mean
    repetitions: int  # typical number that was used
    smallest_effect: float  # as a share: 0.07 = 7 %
    repetitions_for_target: int | None  # null: more than 1,000
    repeated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageRecord:
    """The damage in chaos cells that make the same promises."""

    cells: int
    lost: int
    duplicated: int
    reordered: int
    sent: Mapping[str, int]  # kind of damage -> records that were sent by the cells which are judged by it


@dataclass(frozen=True, slots=True, kw_only=True)
class SurfacePointRecord:
    """One configuration."""

    settings: Mapping[str, str]
    cell_id: str
    contract: str  # what its settings promise
    damage: DamageRecord
    share_on_front: float  # It is a share of the draws. 1.0: surely on the front.
    figures: Mapping[str, Level]  # The key is the measure.


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What client and brokers did in a cell. Null: neither client nor host reported it."""

    records_per_batch: float | None
    fill: float | None  # bytes of a batch, as a share of batch.size
    records_per_request: float | None
    requests_per_s: float | None
    queue_ms: float | None  # accumulation: linger, and waiting for a free request
    request_ms: float | None
    retries: float | None
    buffer_wait_ms: float | None
    backpressure_sends: float | None
    compression_ratio: float | None
    wire_bytes_per_record: float | None
    broker_cpu_us_per_record: float | None  # whole
    broker_cpu_without_compiler_us_per_record: float | None  # the whole CPU, if no compiler was recorded
    broker_cpu_log_error: float | None  # The figure without the compiler has this error.
    compiler_us_per_record: float | None
    collector_us_per_record: float | None
    client_cpu_us_per_record: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptCell:
    cell_id: str
    round: int
    fork: int  # number of the cluster that it ran on
    state: FigureState
    reason: str  # why the state is not ok
    warming: str  # how much the brokers' compilers took; the figures stay in
    settings: Mapping[str, str]
    values: Mapping[str, float]  # measure -> value; absent: not to be used
    behaviour: Behaviour


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRecord:
    schema_version: int
    design: str
    repetitions: int
    forks: int  # number of clusters on which the rounds ran
    fork_scatter: tuple[ForkScatter, ...]
    recommendation: RecommendationRecord
    warnings: tuple[str, ...]  # cells whose figures could mislead
    effects: tuple[EffectRecord, ...]
    interactions: tuple[InteractionRecord, ...]
    sensitivity: tuple[Sensitivity, ...]
    surface: tuple[SurfacePointRecord, ...]
    cells: tuple[SweptCell, ...]
    analysis_id: str  # It names the analysis that wrote the file. Empty: an older version did not write it.
