"""When a node takes a snapshot of its metadata, how an image becomes one, and when the log before it may be deleted
(KIP-630, KIP-876).

Owns: the count of bytes that were committed since the last snapshot, and the time since then. `metadata.py` takes
snapshots.
Shown by tests/broker_node/test_node_snapshots.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.controller.image import MetadataImage
from broker.controller.record_codec import decode_records, encode_records
from broker.controller.snapshot import image_of, image_records
from broker.quorum.checkpoint import decode_snapshot, encode_snapshot
from broker.quorum.snapshots import Snapshot, SnapshotId


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotConfig:
    """Fields have Kafka's names and defaults."""

    max_record_bytes: int = 20 << 20  # metadata.log.max.record.bytes.between.snapshots
    max_interval_ms: int = 3_600_000  # metadata.log.max.snapshot.interval.ms; 0: no snapshot because of time
    retention_bytes: int = 100 << 20  # metadata.max.retention.bytes: for log and snapshot together; negative: no limit
    # metadata.max.retention.ms: for entries that a snapshot replaces; negative: for ever
    retention_ms: int = 604_800_000


class SnapshotPolicy:
    def __init__(self, config: SnapshotConfig) -> None:
        self._config = config
        self._bytes = 0  # bytes committed since the last snapshot
        self._since_ms: int | None = None  # when the first of them was committed
        # when the oldest entry in the log was committed, as far as this process knows
        self._oldest_ms: int | None = None

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


def snapshot_of(image: MetadataImage, *, epoch: int, last_timestamp_ms: int) -> Snapshot:
    """`epoch` is the epoch of the last entry in the image."""
    snapshot_id = SnapshotId(end_offset=image.offset + 1, epoch=epoch)
    return encode_snapshot(snapshot_id, encode_records(image_records(image)), last_timestamp_ms=last_timestamp_ms)


def image_in(snapshot: Snapshot) -> MetadataImage:
    records = decode_records(decode_snapshot(snapshot))
    return image_of(records, end_offset=snapshot.snapshot_id.end_offset, epoch=snapshot.snapshot_id.epoch)
