"""Lines of cluster.jsonl: events from the journals of brokers, and events that the harness saw from outside.

Each kind of event has a class. Kinds with the same fields share one. Events of one partition are in partition.py. The
journal of the reference broker has the same lines with `mono_ns` instead of `t_us` and without a source
(broker/node/process/journal.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from runlog.records.cluster_kinds import UNKNOWN, ClusterKind, Source
from runlog.records.codec import Rest
from runlog.records.partition import PartitionEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEvent:
    """An event of a whole broker."""

    t_us: int
    broker: int = UNKNOWN
    kind: Literal[
        ClusterKind.STARTED, ClusterKind.STOPPED, ClusterKind.KILLED, ClusterKind.PAUSED, ClusterKind.RESUMED,
        ClusterKind.OUT_OF_MEMORY, ClusterKind.BROKER_FENCED, ClusterKind.BROKER_UNFENCED,
    ]  # fmt: skip
    source: Source = Source.JOURNAL
    controlled: bool | None = None  # `stopped` has it: the controller had moved its leaderships away first.
    by: int | None = None  # `fenced` and `unfenced` have it: the active controller.


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """A broker's process is gone. Other lines say whether it was asked to end."""

    t_us: int
    broker: int = UNKNOWN
    kind: ClassVar[ClusterKind] = ClusterKind.EXITED
    source: Source = Source.PROCESS
    code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerElected:
    t_us: int
    broker: int = UNKNOWN
    kind: ClassVar[ClusterKind] = ClusterKind.CONTROLLER_ELECTED
    controller_epoch: int = UNKNOWN
    source: Source = Source.JOURNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotInstalled:
    """A voter that was behind got a snapshot of the metadata instead of its log."""

    t_us: int
    broker: int = UNKNOWN
    kind: ClassVar[ClusterKind] = ClusterKind.METADATA_SNAPSHOT_INSTALLED
    end_offset: int = UNKNOWN
    epoch: int = UNKNOWN
    source: Source = Source.JOURNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumFailed:
    """The storage of the quorum failed: the process ends."""

    t_us: int
    broker: int = UNKNOWN
    kind: ClassVar[ClusterKind] = ClusterKind.QUORUM_FAILED
    doing: str = ""
    epoch: int = UNKNOWN
    cause: str = ""
    source: Source = Source.JOURNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageFailed:
    """A partition is offline until the next start. Without topic and partition, a log directory failed. If it is the
    only one, or if no other works, or if it holds the metadata log, the process ends."""

    t_us: int
    broker: int = UNKNOWN
    kind: ClassVar[ClusterKind] = ClusterKind.STORAGE_FAILED
    topic: str | None = None
    partition: int | None = None
    cause: str = ""
    directory: str | None = None  # the log directory that failed, if the broker has several
    source: Source = Source.JOURNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDecided:
    """The transaction coordinator has decided, and its decision is committed."""

    t_us: int
    broker: int = UNKNOWN
    kind: ClassVar[ClusterKind] = ClusterKind.TRANSACTION_DECIDED
    transactional_id: str = ""
    producer_id: int = UNKNOWN
    producer_epoch: int = UNKNOWN
    is_commit: bool = False
    cause: str = ""  # client, timeout, fenced
    partitions: tuple[tuple[str, int], ...] = ()
    source: Source = Source.JOURNAL


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherClusterEvent:
    """An event of a kind that this version does not know."""

    t_us: int
    broker: int = UNKNOWN
    kind: str
    more: Rest


ClusterEvent: TypeAlias = (
    BrokerEvent
    | Exited
    | ControllerElected
    | SnapshotInstalled
    | QuorumFailed
    | StorageFailed
    | PartitionEvent
    | TransactionDecided
    | OtherClusterEvent
)
