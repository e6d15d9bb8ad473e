"""cell.json: the plan of a cell, and its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from runlog.records.codec import Rest
from runlog.records.holes import Hole
from runlog.records.hosts import LoadHostRecord
from runlog.records.load import Health, ProducerEnd
from runlog.records.workload import WorkloadRecord

EXTERNAL: Final = "external"  # the engine of a cluster that the harness did not start: its hosts may be anywhere


class CellKind(StrEnum):
    SWEEP = "sweep"
    CHAOS = "chaos"
    SEARCH = "search"
    CEILING = "ceiling"  # The cell of a configuration that sends as fast as it can.


class CellStatus(StrEnum):
    UNKNOWN = "unknown"  # cell.json does not say it
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    ABSENT = "absent"  # made by the reader, never written: the cell was planned and has no directory


class CellAnomaly(StrEnum):
    """A failure of the cell that says something about the cluster or the client."""

    NONE = ""
    NO_RECOVERY = "no_recovery"
    HANG = "hang"
    HARNESS_ERROR = "harness_error"


class Expectation(StrEnum):
    """How much of one kind of damage a cell may show."""

    NONE = "none"
    PREDICTED = "predicted"  # exactly the predicted records, and at least one
    EXACT = "exact"  # exactly the predicted records, or none if none was predicted
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
    passed_over: Shown | None = None  # a group that commits records before it processes them passes some over


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
    """The ceiling of the load generator for this cell's shape, or why it is not known."""

    id: str | None = None
    records_per_s: float | None = None
    exact: bool | None = None  # False: the certificate is of a similar shape
    disturbed: bool | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSettings:
    """The settings that client, topic and broker really used, by Kafka's names. Secrets are hidden."""

    client: Mapping[str, str] = field(default_factory=dict)
    topic: Mapping[str, str] = field(default_factory=dict)
    broker: Mapping[str, str] = field(default_factory=dict)
    consumer: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalReadRecord:
    """The read of the whole log after healing. A record that was not found is lost only if this read is complete."""

    complete: bool
    reason: str
    end_offsets: Mapping[int, int]  # The key is the partition.
    # By partition. Records below were deleted: by retention or by somebody (DeleteRecords). None: an older run.
    start_offsets: Mapping[int, int] | None = None
    size_bytes: Mapping[int, int] | None = None  # For each partition: all batches from the start offset on.
    records: int | None = None
    foreign: int | None = None  # records that the harness did not make
    uncommitted: int | None = None  # of the load's, in transactions that were aborted or are open; rows of that stream
    # None: the topic is not compacted, the keys are others or none, or the run is older.
    keys_crc: int | None = None  # fingerprint of the load's keys (record_keys.py), if each record has its own
    corrupt: tuple[str, ...] | None = None  # batches served with a wrong CRC; their rows in `log` have crc_ok 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersRecord:
    """For a cell with member processes."""

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
    """The outcome of the cell. It is rewritten when the cell ends. Until then it says that the cell was interrupted."""

    status: CellStatus
    reason: str  # why the cell is not done
    started_us: int | None
    measure_start_us: int | None  # the measured window
    measure_end_us: int | None
    ended_us: int | None  # None: the harness ended before it could write this
    producers: tuple[ProducerEnd, ...]
    health: Health
    effective: EffectiveSettings
    final_read: FinalReadRecord
    members: MembersRecord
    copies: CopiesRecord
    anomaly: CellAnomaly
    notes: tuple[str, ...]  # what was unusual, and attempts that were put aside
    holes: tuple[Hole, ...] | None = None  # The evidence has them. None: an older run, which has them among its notes.
    load_hosts: tuple[LoadHostRecord, ...] = ()  # none: the load ran on the harness's own host

    @property
    def window_us(self) -> tuple[int, int] | None:
        """The measured window; None if it was not reached or not left."""
        if self.measure_start_us is None or self.measure_end_us is None:
            return None
        return self.measure_start_us, self.measure_end_us


def not_begun() -> OutcomeRecord:
    """The outcome of a cell that has not begun. It stays in cell.json if the harness is killed."""
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
        holes=(),
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
    fork: int | None  # A sweep cell has the number of the cluster that it ran on, from 1.
    round: int | None = None  # Sweeps count them from 1. One may have the baseline twice. Null: as `repetition`.
    order: int | None
    scenario: str | None
    case: str | None
    damage: str | None
    note: str
    about: str  # what the scenario does
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
    limits: tuple[str, ...] = ()  # The suite has them, as text: `p99_ms <= 50`.
    tags: tuple[str, ...]
    log_directories: int | None = None  # Each broker has so many. None: an older run, or a cluster that is not ours.
    racks: tuple[str, ...] = ()  # The brokers have them in turn (broker.rack). Empty: none, or not our cluster.
    has_faults: bool = True  # False: a control run. Older runs do not have this field
    proxied: bool
    path: str  # loopback, or the proxy server
    seed: int | None  # None: cell.json does not have it
    command: str
    broker_settings: Mapping[str, str]
    security: str = (
        ""  # what its clients spoke: protocol and SASL mechanism, e.g. sasl_ssl PLAIN. Older runs do not tell
    )
    certificate: CertificateReference
    outcome: OutcomeRecord
    files: FilesRecord | None = None  # all files of the cell, since schema version 3
    more: Rest = field(default_factory=dict)  # fields of other versions, kept when the document is written again

    @property
    def round_number(self) -> int:
        """From 1: cells of one round follow each other, in a random order."""
        return self.round or self.repetition or 1

    @property
    def draw_seed(self) -> int:
        """Of what is drawn for this cell: arrivals, sizes, keys, the faults of a swarm. Each round draws anew, so
        that figures do not hang on one sequence. The configurations of one round share it, so they are compared under
        the same arrivals. Only where `seed` is known."""
        assert self.seed is not None
        return self.seed + self.round_number - 1
