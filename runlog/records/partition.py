"""Lines of cluster.jsonl about one partition: its leader, its ISR, its log. cluster.py has the other lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from runlog.records.cluster_kinds import UNKNOWN, ClusterKind, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class BecameLeader:
    t_us: int
    broker: int = UNKNOWN
    kind: ClassVar[ClusterKind] = ClusterKind.BECAME_LEADER
    topic: str | None = None
    partition: int
    leader_epoch: int = UNKNOWN
    log_end_offset: int | None = None
    source: Source = Source.JOURNAL

    @property
    def leader(self) -> int:
        return self.broker


@dataclass(frozen=True, slots=True, kw_only=True)
class BecameFollower:
    t_us: int
    broker: int = UNKNOWN
    kind: ClassVar[ClusterKind] = ClusterKind.BECAME_FOLLOWER
    topic: str | None = None
    partition: int
    leader_epoch: int = UNKNOWN
    leader: int = UNKNOWN
    source: Source = Source.JOURNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderSeen:
    """What the probe saw, written when it changed. leader is -1 while the partition has no leader."""

    t_us: int
    broker: int = UNKNOWN
    kind: ClassVar[ClusterKind] = ClusterKind.LEADER
    source: Source = Source.PROBE
    topic: str | None = None
    partition: int
    leader: int = UNKNOWN
    leader_epoch: int = UNKNOWN
    isr: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrChanged:
    """The ISR, as the leader of that epoch knows it."""

    t_us: int
    broker: int = UNKNOWN
    kind: ClassVar[ClusterKind] = ClusterKind.ISR_CHANGED
    topic: str | None = None
    partition: int
    leader_epoch: int = UNKNOWN
    isr: tuple[int, ...]
    source: Source = Source.JOURNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermark:
    """The end offset that the leader shows to consumers, written when the probe saw a change."""

    t_us: int
    broker: int = UNKNOWN
    kind: ClassVar[ClusterKind] = ClusterKind.HIGH_WATERMARK
    source: Source = Source.PROBE
    topic: str | None = None
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """One record batch in a leader's log."""

    t_us: int
    broker: int = UNKNOWN
    kind: ClassVar[ClusterKind] = ClusterKind.APPENDED
    topic: str | None = None
    partition: int
    leader_epoch: int
    base_offset: int
    last_offset: int
    producer_id: int = UNKNOWN
    producer_epoch: int = UNKNOWN
    base_sequence: int = UNKNOWN
    crc: int = UNKNOWN
    client_id: str = ""
    correlation_id: int | None = None
    source: Source = Source.JOURNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceRefused:
    """A batch that the leader did not append, because of its sequence numbers. If it is a duplicate, the offsets are
    those of the batch that is in the log already; -1 if they are not known any more."""

    t_us: int
    broker: int = UNKNOWN
    kind: Literal[ClusterKind.DUPLICATE_SEQUENCE, ClusterKind.OUT_OF_ORDER_SEQUENCE]
    topic: str | None = None
    partition: int
    leader_epoch: int = UNKNOWN
    base_offset: int = UNKNOWN
    last_offset: int = UNKNOWN
    producer_id: int = UNKNOWN
    producer_epoch: int = UNKNOWN
    base_sequence: int = UNKNOWN
    crc: int = UNKNOWN
    client_id: str = ""
    correlation_id: int | None = None
    source: Source = Source.JOURNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncated:
    """Records with to_offset <= offset < from_offset are gone from this broker. leader_epoch is the epoch of these
    records.

    With source `wire`: a replaced leader that stayed alive had answered for these records, and its successor does not
    have them. From until_us on the replaced broker leads again, or its next process runs."""

    t_us: int
    broker: int = UNKNOWN
    kind: ClassVar[ClusterKind] = ClusterKind.TRUNCATED
    source: Source = Source.JOURNAL
    topic: str | None = None
    partition: int
    leader_epoch: int = UNKNOWN
    from_offset: int
    to_offset: int
    until_us: int | None = None
    restarted_at: int | None = None  # the leader's log start, above all these records: the replica began anew there


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecovered:
    """The state of a log at the start of its broker."""

    t_us: int
    broker: int = UNKNOWN
    kind: ClassVar[ClusterKind] = ClusterKind.LOG_RECOVERED
    topic: str | None = None
    partition: int
    clean: bool | None = None  # the broker was stopped before, and not killed
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    segments: int | None = None
    scanned_segments: int | None = None
    scanned_batches: int | None = None
    cut_bytes: int | None = None
    cut_reason: str | None = None
    deleted_segments: int | None = None
    source: Source = Source.JOURNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class StrayLogRemoved:
    """A broker removed a log whose topic was deleted while the broker was down."""

    t_us: int
    broker: int = UNKNOWN
    kind: ClassVar[ClusterKind] = ClusterKind.STRAY_LOG_REMOVED
    topic: str | None = None
    partition: int
    topic_id: str | None = None
    source: Source = Source.JOURNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStartAdvance:
    """A broker is about to delete the records with from_offset <= offset < log_start_offset, because of retention or
    because a client asked for it (DeleteRecords). The line is written before it does so."""

    t_us: int
    broker: int = UNKNOWN
    kind: ClassVar[ClusterKind] = ClusterKind.LOG_START_ADVANCE
    topic: str | None = None
    partition: int
    cause: str  # retention, or delete_records
    from_offset: int
    log_start_offset: int
    # Of each segment that retention deletes, in order: its end offset, and the bytes of the log after it.
    expired: tuple[tuple[int, int], ...] = ()
    source: Source = Source.JOURNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentsDeleted:
    """Retention deleted segments."""

    t_us: int
    broker: int = UNKNOWN
    kind: ClassVar[ClusterKind] = ClusterKind.SEGMENTS_DELETED
    topic: str | None = None
    partition: int
    deleted_segments: int | None = None
    deleted_bytes: int | None = None
    log_start_offset: int | None = None
    source: Source = Source.JOURNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionBegun:
    """From now on records below `end_offset` may be gone, if a newer one of their key is there."""

    t_us: int
    broker: int = UNKNOWN
    kind: ClassVar[ClusterKind] = ClusterKind.COMPACTION_BEGUN
    topic: str | None = None
    partition: int
    first_dirty_offset: int | None = None
    end_offset: int
    source: Source = Source.JOURNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCompacted:
    t_us: int
    broker: int = UNKNOWN
    kind: ClassVar[ClusterKind] = ClusterKind.LOG_COMPACTED
    topic: str | None = None
    partition: int
    clean_until: int | None = None
    segments_before: int | None = None
    segments_after: int | None = None
    bytes_before: int | None = None
    bytes_after: int | None = None
    records_removed: int | None = None
    source: Source = Source.JOURNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaDivergence:
    """After healing, two replicas have different batches from that offset on."""

    t_us: int
    broker: int = UNKNOWN
    kind: ClassVar[ClusterKind] = ClusterKind.REPLICA_DIVERGENCE
    source: Source = Source.LOG_DUMP
    topic: str | None = None
    partition: int
    brokers: tuple[int, ...] | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMarker:
    """The end of a transaction in a partition's log."""

    t_us: int
    broker: int = UNKNOWN
    kind: ClassVar[ClusterKind] = ClusterKind.TRANSACTION_MARKER
    topic: str | None = None
    partition: int
    leader_epoch: int = UNKNOWN
    offset: int = UNKNOWN
    coordinator_epoch: int = UNKNOWN
    producer_id: int = UNKNOWN
    producer_epoch: int = UNKNOWN
    is_commit: bool = False
    source: Source = Source.JOURNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMarkerRefused:
    """The leader of the partition refused the marker."""

    t_us: int
    broker: int = UNKNOWN
    kind: ClassVar[ClusterKind] = ClusterKind.TRANSACTION_MARKER_REFUSED
    topic: str | None = None
    partition: int
    producer_id: int = UNKNOWN
    producer_epoch: int = UNKNOWN
    is_commit: bool = False
    error: str = ""
    source: Source = Source.JOURNAL


PartitionEvent: TypeAlias = (
    BecameLeader
    | BecameFollower
    | LeaderSeen
    | IsrChanged
    | HighWatermark
    | Appended
    | SequenceRefused
    | Truncated
    | LogRecovered
    | StrayLogRemoved
    | LogStartAdvance
    | SegmentsDeleted
    | CompactionBegun
    | LogCompacted
    | ReplicaDivergence
    | TransactionMarker
    | TransactionMarkerRefused
)
