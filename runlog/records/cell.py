"""cell.json: what a cell was to be, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from runlog.records.codec import Rest
from runlog.records.hosts import LoadHostRecord
from runlog.records.load import Health, ProducerEnd
from runlog.records.workload import WorkloadRecord


class CellKind(StrEnum):
    SWEEP = "sweep"
    CHAOS = "chaos"
    SEARCH = "search"
    CEILING = "ceiling"  # of a sweep's configuration: sends as fast as it can


class CellStatus(StrEnum):
    UNKNOWN = "unknown"  # cell.json does not tell
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    ABSENT = "absent"  # planned, and left no directory: the reader's word, never written


class CellAnomaly(StrEnum):
    """A failure of the cell that says something of cluster or client."""

    NONE = ""
    NO_RECOVERY = "no_recovery"
    HANG = "hang"
    HARNESS_ERROR = "harness_error"


class Expectation(StrEnum):
    """How much of one kind of damage a cell may show."""

    NONE = "none"
    PREDICTED = "predicted"  # exactly the predicted records, and at least one
    EXACT = "exact"  # exactly the predicted records; none is right too
    ANY = "any"


class Shown(StrEnum):
    """Whether the cell is there to show a kind of damage: if so, and none is seen, it has not shown it."""

    NONE = "none"
    SOME = "some"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    lost: Expectation = Expectation.NONE
    duplicated: Expectation = Expectation.NONE
    reordered: Expectation = Expectation.NONE
    lost_unacked: Shown | None = None  # with acks=0
    passed_over: Shown | None = None  # of a group that commits ahead of its work


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionRecord:
    """A limit that the scenario sets for a figure."""

    text: str
    figure: str  # gap, detect, elect, recover, area
    limit: float  # seconds; of area record-seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    name: str | None
    partitions: int | None
    replication_factor: int | None
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateReference:
    """What the load generator reached by itself for this cell's shape, or why that is not known."""

    id: str | None = None
    records_per_s: float | None = None
    exact: bool | None = None  # False: of a shape like it
    disturbed: bool | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSettings:
    """What client, topic and broker say that they ran with, by Kafka's names. Secrets are hidden."""

    client: Mapping[str, str] = field(default_factory=dict)
    topic: Mapping[str, str] = field(default_factory=dict)
    broker: Mapping[str, str] = field(default_factory=dict)
    consumer: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalReadRecord:
    """The read of the whole log after healing. Only if it is complete what was not found is lost."""

    complete: bool
    reason: str
    end_offsets: Mapping[int, int]  # by partition
    records: int | None = None
    foreign: int | None = None  # records of nobody
    corrupt: tuple[str, ...] | None = None  # batches served with a wrong CRC; their rows in `log` have crc_ok 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersRecord:
    """Of a cell with member processes."""

    caught_up: bool | None = None  # every group was given the last record of every partition
    missing: str | None = None
    died: tuple[str, ...] | None = None  # members that ended although no fault ended them
    deliveries: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesRecord:
    """The read of the copiers' topic."""

    complete: bool | None = None
    reason: str | None = None
    committed: int | None = None
    aborted: int | None = None
    open: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRecord:
    """What became of the cell. Rewritten when it ends; until then it says that it was interrupted."""

    status: CellStatus
    reason: str  # why it is not done
    started_us: int | None
    measure_start_us: int | None  # the measured window
    measure_end_us: int | None
    ended_us: int | None  # None: nobody came to write it
    producers: tuple[ProducerEnd, ...]
    health: Health
    effective: EffectiveSettings
    final_read: FinalReadRecord
    members: MembersRecord
    copies: CopiesRecord
    anomaly: CellAnomaly
    notes: tuple[str, ...]  # what was odd, and attempts that were put aside
    load_hosts: tuple[LoadHostRecord, ...] = ()  # none: the load ran on the harness's own host

    @property
    def window_us(self) -> tuple[int, int] | None:
        """The measured window; None if it was not reached or not left."""
        if self.measure_start_us is None or self.measure_end_us is None:
            return None
        return self.measure_start_us, self.measure_end_us


def not_begun() -> OutcomeRecord:
    """Of a cell that nothing has come of yet: what stands in cell.json if nobody comes to write more."""
    return OutcomeRecord(
        status=CellStatus.INTERRUPTED,
        reason="the run ended in the middle of this cell",
        started_us=None,
        measure_start_us=None,
        measure_end_us=None,
        ended_us=None,
        producers=(),
        health=Health(),
        effective=EffectiveSettings(),
        final_read=FinalReadRecord(complete=False, reason="not reached", end_offsets={}),
        members=MembersRecord(),
        copies=CopiesRecord(),
        anomaly=CellAnomaly.NONE,
        notes=(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """A file of a finished cell; rows of Parquet parts only."""

    file: str
    bytes: int
    crc32: int
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesRecord:
    streams: Mapping[str, tuple[ListedFile, ...]]
    events: tuple[ListedFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRecord:
    cell_id: str
    kind: CellKind
    title: str
    client: str
    engine: str
    engine_version: str
    brokers: int | None
    repetition: int | None
    fork: int | None  # of sweep cells: number of the cluster that it ran on, from 1
    order: int | None
    scenario: str | None
    case: str | None
    damage: str | None
    note: str
    about: str  # the scenario in words
    source: str  # where the scenario is from
    changed: str  # the setting in which a cell of a one-at-a-time sweep differs from the baseline
    properties: Mapping[str, str]  # Kafka client properties
    topic: TopicRecord
    workload: WorkloadRecord
    knobs: Mapping[str, str]  # the five settings that the reports compare
    factors: Mapping[str, str]  # the swept settings and their declared levels
    baseline: bool
    expect: Expectations
    criteria: tuple[CriterionRecord, ...]
    limits: tuple[str, ...] = ()  # of the suite, as text: `p99_ms <= 50`
    tags: tuple[str, ...]
    has_faults: bool = True  # False: a control run. Older runs do not tell
    proxied: bool
    path: str  # loopback, or the proxy server
    seed: int | None  # None: cell.json does not tell
    command: str
    broker_settings: Mapping[str, str]
    security: str = (
        ""  # what its clients spoke: protocol and SASL mechanism, e.g. sasl_ssl PLAIN. Older runs do not tell
    )
    certificate: CertificateReference
    outcome: OutcomeRecord
    files: FilesRecord | None = None  # all files of the cell, since schema version 3
    more: Rest = field(default_factory=dict)  # fields of other versions, kept when the document is written again
