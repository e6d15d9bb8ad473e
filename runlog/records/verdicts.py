"""results/verdicts.json: the verdict on the run and on each cell, for programs.

The published JSON Schema of the file is reports/render/results_schema.py. Every field is always written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from runlog.records.cell import CellKind, Expectation
from runlog.records.codec import Rest
from runlog.records.holes import Hole

# 2: analysis, the id of the one that wrote the file; 3: limits of cells; 4: limits of the run, capacity of cells;
# 5: holes of cells; 6: percentiles that are not reached
VERDICTS_VERSION: Final = 6


class Result(StrEnum):
    INCONCLUSIVE = "inconclusive"  # the first value is the default: a damaged file is never a pass
    PASS = "pass"
    FAIL = "fail"


class LimitOutcome(StrEnum):
    UNDECIDED = "undecided"  # the figure is not known or cannot be used; this is not a pass
    HELD = "held"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisRecord:
    """Which analysis wrote the file."""

    id: str
    written_at: str  # date and time


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    run_id: str | None
    engine: str | None
    seed: int | None
    t0_wall: str | None
    versions: Mapping[str, str] | None
    notes: tuple[str, ...]
    problems: tuple[str, ...]  # What the whole run has. With a problem the run is not a pass.


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitTally:
    """How often one limit is held, broken and undecided, over everything that it applies to."""

    limit: str
    held: int
    broken: int
    undecided: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Sentences that a reader of the run needs beside its figures."""

    damage: tuple[str, ...]  # sentences: what was damaged and why, what kept every record, the cells without faults
    safety_cost: tuple[
        str, ...
    ]  # acks=all against acks=1, one entry for each figure; empty if the sweep does not compare them
    highest_rate: str  # what a rate search found; empty without one
    recommendation: tuple[str, ...]  # sentences; empty without a sweep
    properties: str  # the recommended client's configuration file; empty if nothing is recommended
    warnings: tuple[str, ...]  # the doubts of the front page, in its order
    limits: tuple[LimitTally, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRecord:
    """One invariant of one cell."""

    name: str
    result: Result
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRecord:
    """The result of one limit of the suite. Value and bound are in the figure's unit; null: not known."""

    limit: str  # as the suite has it: p99_ms <= 50
    figure: str
    value: float | None
    bound: float | None
    outcome: LimitOutcome
    reason: str
    clock_error: float | None = None  # how much value can be wrong; missing: it is of one clock, or no bound is known


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimitVerdict:
    """The result of a limit for several cells, or for the run itself. Value and bound are as in a cell's limit."""

    subject: str  # the configuration (the id of its cells without the repetition), or run
    limit: str
    figure: str
    value: float | None
    bound: float | None
    outcome: LimitOutcome
    reason: str
    result: Result
    allowed: str  # the allowance by which a broken limit passes for now; empty: none
    clock_error: float | None = None  # as in a cell's limit


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyRecord:
    """In microseconds. Null: the sample is too small, or the percentile is among `not_reached`: it falls on records
    that never were acknowledged, or end to end never were read. JSON has no number for that."""

    p50: float | None
    p90: float | None
    p99: float | None
    p999: float | None
    max: int | None
    mean: float | None
    n: int
    unanswered: int  # never acknowledged, never read or never sent: they count as slower than the n others
    p99_interval: tuple[float, float | None] | None  # 95 %: low, high; high is null if it is not reached
    not_reached: tuple[str, ...] = ()  # names of the percentiles that are infinite
    answered_share: float | None = None  # n of n and unanswered; missing: nothing was measured, or the file is older


@dataclass(frozen=True, slots=True, kw_only=True)
class LatenciesRecord:
    corrected: LatencyRecord  # from the intended time of a record to its acknowledgement
    uncorrected: LatencyRecord  # from the hand-over to the client
    end_to_end: LatencyRecord  # from the intended time to the poll
    schedule_lag: LatencyRecord  # from the intended time to the hand-over
    # How much a latency between two load hosts can be wrong. A latency that is not above it is null. Null: all are of
    # one clock, or no bound is known, and then there is no latency.
    end_to_end_clock_error: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendCounts:
    """Sends whose intended time lies in the measured window, by outcome."""

    sent: int
    acked: int
    failed: int
    unknown: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRecord:
    """A set of identities of records."""

    count: int
    hash: str  # does not depend on the order
    ranges: tuple[str, ...]  # producer/incarnation/sequence, or first-last with both ends
    ranges_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSets:
    predicted: SetRecord
    observed: SetRecord
    both: SetRecord
    only_predicted: SetRecord
    only_observed: SetRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class SetComparisonRecord:
    """Prediction and observation of one kind of damage."""

    expected: Expectation  # any: damage is allowed, and is not compared with a prediction
    predicted: int
    observed: int
    both: int
    only_predicted: int
    only_observed: int
    how: str  # where the prediction comes from
    equal: bool
    sets: ComparedSets


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedDamage:
    lost: SetComparisonRecord
    duplicated: SetComparisonRecord
    reordered: SetComparisonRecord

    def by_kind(self) -> dict[str, SetComparisonRecord]:
        return {"lost": self.lost, "duplicated": self.duplicated, "reordered": self.reordered}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryRecord:
    """Times from the first fault on. Detection and election count from process_fault if there is one. Null: not
    seen."""

    fault: str
    fault_us: int  # since the run's zero of time
    process_fault: str = ""  # the later fault that ended or paused a process; empty if the first one did, or none
    process_fault_us: int | None = None
    detect_us: int | None  # until the cluster reacted: a broker was fenced, an ISR or an epoch changed
    elect_us: int | None  # until another leader led
    first_ack_us: int | None  # until the first acknowledgement after the longest gap that the fault caused
    recover_us: int | None  # until the rate of acknowledgements was back, for good
    area_record_seconds: float | None  # missing acknowledgements, times how long they were missing
    service_level_records_per_s: float | None  # at this rate the service counts as recovered
    # With load hosts: how much first_ack_us and recover_us can be wrong. They are null if not above it. Missing: they
    # are of one clock, or no bound is known, and then they are null.
    clock_error_us: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellVerdict:
    """Figures that no field names are in `figures`: the catalogue of the reports has them all."""

    cell_id: str
    title: str
    kind: CellKind
    client: str
    scenario: str | None
    case: str | None
    verdict: Result
    reasons: tuple[str, ...]  # why the cell is not a pass; if it is a pass, what was shown
    notes: tuple[str, ...]
    holes: tuple[Hole, ...]  # What its evidence lacks. What rests on it is inconclusive.
    checks: tuple[CheckRecord, ...]
    limits: tuple[LimitRecord, ...]  # The suite's limits. Each is among the checks too.
    figures: Rest = field(default_factory=dict)  # each beside these fields; `harness schema verdicts` says what it is
    throughput_interval: tuple[float, float] | None  # 95 %: low, high
    throughput_basis: str  # acknowledged, found in the log
    latency_us: LatenciesRecord
    in_window: SendCounts
    anomalies: Mapping[str, int]  # those that were seen; docs/reference/lawful.md says what each is
    recovery: RecoveryRecord | None
    observed_sets: Mapping[str, SetRecord]
    predicted: PredictedDamage

    def figure(self, name: str) -> float | None:
        """None: the run does not show it, or the file is older than it."""
        value = self.figures.get(name)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictsRecord:
    schema_version: int
    analysis: AnalysisRecord
    run: JudgedRun
    reading: Reading
    limits: tuple[RunLimitVerdict, ...]
    cells: tuple[CellVerdict, ...]
    verdict: Result
    exit_code: int | None  # 0, 1 or 4
