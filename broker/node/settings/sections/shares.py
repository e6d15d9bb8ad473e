"""Settings of share groups and of the coordinator of their states (KIP-932).

Shown by tests/broker_node/test_node_group_bounds.py and tests/broker_node/test_node_shares.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from broker.node.settings.sections.bounds import (
    Relation,
    at_least,
    first_broken,
    problem_of,
    relations_of_limit,
    relations_of_times,
)
from broker.node.settings.sections.section import Problem, setting
from broker.node.settings.values import codec, positive


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings:
    group_share_session_timeout_ms: int = 45_000  # More gives the records of a dead member back later.
    group_share_heartbeat_interval_ms: int = 5_000  # Less tells a new assignment sooner, for more requests.
    group_share_assignment_interval_ms: int = 1_000  # More joins several changes into one assignment.
    group_share_max_size: int = 200  # members of one group
    group_share_delivery_count_limit: int = 5  # deliveries of one record; after that it is given up
    group_share_record_lock_duration_ms: int = 30_000  # more: the records of a dead member are delivered again later
    # One group may lock so many records in one partition. More needs memory.
    group_share_partition_max_record_locks: int = 2_000
    group_share_max_share_sessions: int = 2_000  # A member beyond it has to try again.
    # Limits of the settings above, and of a group's own settings.
    group_share_min_session_timeout_ms: int = 45_000
    group_share_max_session_timeout_ms: int = 60_000
    group_share_min_heartbeat_interval_ms: int = 5_000
    group_share_max_heartbeat_interval_ms: int = 15_000
    group_share_min_assignment_interval_ms: int = 0
    group_share_max_assignment_interval_ms: int = 15_000
    group_share_min_delivery_count_limit: int = 2
    group_share_max_delivery_count_limit: int = 10
    group_share_min_record_lock_duration_ms: int = 15_000
    group_share_max_record_lock_duration_ms: int = 60_000
    group_share_min_partition_max_record_locks: int = 100
    group_share_max_partition_max_record_locks: int = 4_000
    share_coordinator_state_topic_num_partitions: int = setting(50, positive)  # It cannot change later.
    share_coordinator_state_topic_replication_factor: int = setting(3, positive)  # unless given: at most all voters
    share_coordinator_state_topic_min_isr: int = setting(2, positive)  # unless given: at most the replication factor
    share_coordinator_state_topic_segment_bytes: int = 100 << 20
    # the same numbers as in offsets.topic.compression.codec
    share_coordinator_state_topic_compression_codec: int = setting(0, codec)
    share_coordinator_load_buffer_size: int = setting(5 << 20, positive)  # bytes of one read while it loads
    share_coordinator_write_timeout_ms: int = 5_000  # Then a write fails whose record the ISR does not have.
    # more: fewer bytes are written, but loading takes longer
    share_coordinator_snapshot_update_records_per_snapshot: int = 500

    def broken_bound(self) -> Relation | None:
        return first_broken(self, _relations())

    def problem(self) -> Problem | None:
        return problem_of(self, self.broken_bound())


def _relations() -> Iterator[Relation]:
    yield from relations_of_times("share")
    for name in ("delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms"):
        yield from relations_of_limit(name)
    yield at_least("group.share.max.share.sessions", "group.share.max.size")
