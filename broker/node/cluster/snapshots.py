"""When a node puts its metadata into a snapshot, and when the log before it may go (KIP-630, KIP-876).

Owns only the counting: how much was committed since the last snapshot, and since when. `metadata.py` takes snapshots.
Shown by tests/broker_node/test_node_snapshots.py.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotConfig:
    """Kafka's names and defaults."""

    max_record_bytes: int = 20 << 20  # metadata.log.max.record.bytes.between.snapshots
    max_interval_ms: int = 3_600_000  # metadata.log.max.snapshot.interval.ms; 0: never by time
    retention_bytes: int = 100 << 20  # metadata.max.retention.bytes: of log and snapshot together; negative: no limit
    retention_ms: int = 604_800_000  # metadata.max.retention.ms: of entries that a snapshot stands for; negative: ever


class SnapshotPolicy:
    def __init__(self, config: SnapshotConfig) -> None:
        self._config = config
        self._bytes = 0  # committed since the last snapshot
        self._since_ms: int | None = None  # the first of those
        self._oldest_ms: int | None = None  # the first entry that may still be in the log, as far as this life knows

    def committed(self, size_bytes: int, now_ms: int) -> None:
        self._bytes += size_bytes
        if self._since_ms is None:
            self._since_ms = now_ms
        if self._oldest_ms is None:
            self._oldest_ms = now_ms

    def deadline_ms(self) -> int | None:
        """When a snapshot is due because of its age."""
        if self._since_ms is None or self._config.max_interval_ms == 0:
            return None
        return self._since_ms + self._config.max_interval_ms

    def is_due(self, now_ms: int) -> bool:
        deadline_ms = self.deadline_ms()
        return self._bytes >= self._config.max_record_bytes or (deadline_ms is not None and now_ms >= deadline_ms)

    def drops_prefix(self, log_bytes: int, now_ms: int) -> bool:
        """Whether the entries that the snapshot replaces are removed from the log when it is taken."""
        is_large = 0 <= self._config.retention_bytes < log_bytes
        is_old = self._oldest_ms is not None and 0 <= self._config.retention_ms <= now_ms - self._oldest_ms
        return is_large or is_old

    def taken(self, now_ms: int, *, has_dropped_prefix: bool) -> None:
        self._bytes, self._since_ms = 0, None
        if has_dropped_prefix:
            self._oldest_ms = None
