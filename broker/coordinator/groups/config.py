"""Settings of the group coordinator, under Kafka's names with underscores. Times in ms, sizes in bytes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000  # more: fewer rebalances while a fleet starts; less: a faster start
    group_max_size: int = 2**31 - 1
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_regex_refresh_interval_ms: int = 600_000  # less: a new right to a topic counts sooner
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")  # the first is the default
    is_consumer_protocol_on: bool = True
    group_share_session_timeout_ms: int = 45_000
    group_share_heartbeat_interval_ms: int = 5_000
    group_share_max_size: int = 200
    group_share_initialize_retry_ms: int = 30_000  # then the state of a new partition is begun once more
    is_upgrade_on: bool = True  # a classic group with members may become one of the new protocol
    is_downgrade_on: bool = True  # and back
    is_guarded: bool = False  # there is an authorizer: a member's pattern finds only what the member may know of
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000  # of groups without members, from when they became empty
