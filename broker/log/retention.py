"""Retention: which segments are too old or too many (retention.ms, retention.bytes). Pure except for the deletion
itself.

Kafka's rules: whole segments are deleted, the oldest first, and only below the high watermark. The age of a segment
counts from its largest timestamp. A segment without timestamps does not become old. If all segments are too old, the
active one is rolled first, so that an empty one is left. Segments below the start of the log are always deleted. Shown
by tests/broker_log/test_log_retention.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.log.partition_log import PartitionLog


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionResult:
    deleted_segments: int
    deleted_bytes: int
    log_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """What retention is about to delete: offsets [from_offset, log_start_offset)."""

    from_offset: int
    log_start_offset: int
    # Each segment, in order, has its end offset and the bytes of the log after it.
    expired: tuple[tuple[int, int], ...]


def _ignore(expiry: Expiry) -> None:
    """Nobody wants to know."""


def apply_retention(
    log: PartitionLog, *, now_ms: int, high_watermark: int, before: Callable[[Expiry], None] = _ignore
) -> RetentionResult:
    """Delete segments beyond the limits of `log.config`. The log then starts at the first segment that stays.

    `before` is told when the log start is about to move. A process that is killed in the middle has told it then."""
    size_before, count_before = log.size_bytes, len(log.segments)
    expired = max(_too_old(log, now_ms, high_watermark), _too_much(log, high_watermark))
    expiry = _expiry(log, expired)
    if expiry is not None:
        before(expiry)
    if expired == len(log.segments) and log.segments[-1].size_bytes:
        log.roll()
        count_before += 1
    if 0 < expired < len(log.segments):
        log.advance_log_start(max(log.log_start_offset, log.segments[expired].base_offset))
    log.delete_segments_before_start()
    return RetentionResult(
        deleted_segments=count_before - len(log.segments),
        deleted_bytes=size_before - log.size_bytes,
        log_start_offset=log.log_start_offset,
    )


def _expiry(log: PartitionLog, count: int) -> Expiry | None:
    """Of the first `count` segments; None if the log start does not move."""
    ends = [*(segment.base_offset for segment in log.segments[1:]), log.log_end_offset]
    left_bytes, expired = log.size_bytes, []
    for segment, end_offset in zip(log.segments[:count], ends, strict=False):
        left_bytes -= segment.size_bytes
        if end_offset > log.log_start_offset:
            expired.append((end_offset, left_bytes))
    if not expired:
        return None
    return Expiry(from_offset=log.log_start_offset, log_start_offset=expired[-1][0], expired=tuple(expired))


def _too_old(log: PartitionLog, now_ms: int, high_watermark: int) -> int:
    limit_ms = log.config.retention_ms
    count = 0
    if limit_ms is not None:
        for segment in log.segments:
            is_committed = segment.next_offset <= high_watermark
            is_old = 0 <= segment.max_timestamp < now_ms - limit_ms
            is_emptied = not segment.size_bytes and segment is not log.segments[-1]  # compaction emptied it
            if not is_committed or not (is_emptied or (is_old and segment.size_bytes)):
                break
            count += 1
    return count


def _too_much(log: PartitionLog, high_watermark: int) -> int:
    limit_bytes = log.config.retention_bytes
    count = 0
    if limit_bytes is not None:
        excess_bytes = log.size_bytes - limit_bytes
        for segment in log.segments:
            if segment.next_offset > high_watermark or not 0 < segment.size_bytes <= excess_bytes:
                break
            excess_bytes -= segment.size_bytes
            count += 1
    return count
