"""Settings of the group coordinator, under Kafka's names with underscores. Times in ms, sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    # more: fewer rebalances while many members start; less: a faster start
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    # more: fewer assignments while many members start; less: a member has partitions sooner
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_regex_refresh_interval_ms: int = 600_000  # less: a new permission for a topic takes effect sooner
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")  # the first is the default
    is_consumer_protocol_on: bool = True
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000  # The time counts from when a group lost its last member.
