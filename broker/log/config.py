"""The settings of a log, with Kafka's names and defaults, and when these settings end a segment."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

from broker.log.segment import SEGMENT_BYTES_MAX, Segment

NEVER_MS = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Kafka's names and defaults (dots as underscores). Times in ms; None: no limit."""

    segment_bytes: int = 1 << 30  # roll before a segment grows beyond this; lower: more files, faster recovery
    segment_ms: int = 604_800_000  # roll when a batch is this much younger than the segment's first
    segment_jitter_ms: int = 0  # a segment rolls up to this much earlier, so that not all roll at once
    segment_index_bytes: int = 10 << 20  # roll when an index would outgrow it
    index_interval_bytes: int = 4096  # bytes between two index entries; lower: more memory, fewer reads per fetch
    flush_messages: int | None = None  # fsync after this many records; None: leave it to the operating system
    retention_ms: int | None = None  # None also if cleanup.policy has no `delete`
    retention_bytes: int | None = None
    is_compacted: bool = False
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int | None = None
    delete_retention_ms: int = 86_400_000  # how long a tombstone is kept, so that readers from the start see it

    def __post_init__(self) -> None:
        if not 61 <= self.segment_bytes <= SEGMENT_BYTES_MAX:
            raise ValueError(f"segment.bytes {self.segment_bytes} is outside of 61 to {SEGMENT_BYTES_MAX}")
        if self.flush_messages is not None and self.flush_messages < 1:
            raise ValueError(f"flush.messages {self.flush_messages} is below 1")

    @property
    def roll_ms(self) -> int:
        """The active segment is never compacted, so max.compaction.lag.ms ends it too."""
        if self.is_compacted and self.max_compaction_lag_ms is not None:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

    def roll_at_ms(self, log_name: str, segment: Segment) -> int:
        """A batch with a later timestamp than this begins a new segment. It is the segment's first timestamp plus
        `roll_ms`, less the jitter."""
        if not segment.size_bytes or segment.first_timestamp < 0:
            return NEVER_MS
        jitter_ms = min(self.segment_jitter_ms, self.segment_ms)
        if jitter_ms:  # differs for each log and segment, but is the same in each run
            jitter_ms = crc32(f"{log_name}/{segment.base_offset}".encode()) % jitter_ms
        return segment.first_timestamp + self.roll_ms - jitter_ms
