"""Settings of share groups for their coordinator, under Kafka's names with underscores. Times in ms."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupConfig:
    group_share_session_timeout_ms: int = 45_000
    group_share_assignment_interval_ms: int = 1_000
    group_share_max_size: int = 200
    group_share_initialize_retry_ms: int = 30_000  # after this time the state of a new partition is initialized again
