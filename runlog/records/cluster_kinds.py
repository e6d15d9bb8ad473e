"""Kinds and sources of the lines of cluster.jsonl."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

UNKNOWN: Final = -1  # an offset, epoch, id or broker that is not in the line


class ClusterKind(StrEnum):
    STARTED = "started"
    STOPPED = "stopped"
    KILLED = "killed"
    PAUSED = "paused"
    RESUMED = "resumed"
    EXITED = "exited"
    OUT_OF_MEMORY = "out_of_memory"
    BROKER_FENCED = "broker_fenced"
    BROKER_UNFENCED = "broker_unfenced"
    CONTROLLER_ELECTED = "controller_elected"
    METADATA_SNAPSHOT_INSTALLED = "metadata_snapshot_installed"
    QUORUM_FAILED = "quorum_failed"
    STORAGE_FAILED = "storage_failed"
    BECAME_LEADER = "became_leader"
    BECAME_FOLLOWER = "became_follower"
    LEADER = "leader"
    ISR_CHANGED = "isr_changed"
    HIGH_WATERMARK = "high_watermark"
    APPENDED = "appended"
    DUPLICATE_SEQUENCE = "duplicate_sequence"
    OUT_OF_ORDER_SEQUENCE = "out_of_order_sequence"
    TRUNCATED = "truncated"
    LOG_RECOVERED = "log_recovered"
    STRAY_LOG_REMOVED = "stray_log_removed"
    LOG_START_ADVANCE = "log_start_advance"
    SEGMENTS_DELETED = "segments_deleted"
    COMPACTION_BEGUN = "compaction_begun"
    LOG_COMPACTED = "log_compacted"
    REPLICA_DIVERGENCE = "replica_divergence"
    TRANSACTION_DECIDED = "transaction_decided"
    TRANSACTION_MARKER = "transaction_marker"
    TRANSACTION_MARKER_REFUSED = "transaction_marker_refused"


class Source(StrEnum):
    """Who reports the event."""

    JOURNAL = "journal"  # the reference broker itself
    PROCESS = "process"  # the harness, of the broker's process
    PROBE = "probe"  # the harness, which asks for Metadata and offsets several times a second
    LOG_DUMP = "log_dump"  # the harness, from the segment files of a dead broker
    WIRE = "wire"  # the harness, from the answers that the proxies passed on
    DISK = "disk"  # the harness, which cut the files of a broker that lost power
