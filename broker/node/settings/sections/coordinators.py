"""Settings of the coordinators of consumer groups and of transactions, with their internal topics.

The number of partitions of an internal topic spreads its groups or transactions over brokers. It cannot change later.
Shown by tests/broker_node/test_node_coordinators.py and tests/broker_node/test_node_group_bounds.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.node.settings.sections.bounds import Relation, first_broken, problem_of, relations_of_times
from broker.node.settings.sections.section import Problem, setting
from broker.node.settings.values import choices, codec, positive


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCoordinatorSettings:
    """Longer session timeouts bear longer pauses of a member, and leave its partitions unread for longer if it died."""

    offsets_topic_num_partitions: int = setting(50, positive)
    offsets_topic_replication_factor: int = setting(3, positive)  # unless given: not more than there are voters
    offsets_topic_segment_bytes: int = 100 << 20  # Less is loaded faster after compaction, and makes more files.
    offsets_topic_compression_codec: int = setting(0, codec)  # 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
    offsets_commit_timeout_ms: int = 5_000  # Then a commit fails whose record the ISR does not have.
    offsets_load_buffer_size: int = setting(5 << 20, positive)  # bytes of one read while a coordinator loads
    offsets_retention_minutes: int = 10_080  # of an empty group; then its offsets are forgotten
    offsets_retention_check_interval_ms: int = setting(600_000, positive)
    offset_metadata_max_bytes: int = 4_096  # of the text beside an offset; a longer one is refused
    # What a classic member may ask for as its session timeout.
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000  # A new classic group waits so long for more members.
    group_max_size: int = 2**31 - 1  # members of a classic group
    group_coordinator_rebalance_protocols: str = setting(  # Kafka: also streams
        "classic,consumer", choices("classic", "consumer", needed="classic")
    )
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000  # Less tells a new assignment sooner, for more requests.
    group_consumer_assignment_interval_ms: int = 1_000  # More joins several changes into one assignment.
    # Limits of the settings above, and of a group's own settings.
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_max_assignment_interval_ms: int = 15_000
    group_consumer_max_size: int = 2**31 - 1  # members of a consumer group
    group_consumer_assignors: str = setting("uniform,range", choices("uniform", "range"))  # The first is the default.
    group_consumer_regex_refresh_interval_ms: int = 600_000  # More sees new topics of a pattern later.

    def broken_bound(self) -> Relation | None:
        return first_broken(self, relations_of_times("consumer"))

    def problem(self) -> Problem | None:
        return problem_of(self, self.broken_bound())


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    transaction_state_log_num_partitions: int = setting(50, positive)
    transaction_state_log_replication_factor: int = setting(3, positive)  # unless given: not more than voters
    transaction_state_log_min_isr: int = setting(2, positive)  # unless given: not more than the replication factor
    transaction_state_log_segment_bytes: int = 100 << 20
    transaction_state_log_load_buffer_size: int = 5 << 20  # bytes of one read while a coordinator loads
    # the maximum that a client may ask for; more keeps a stuck transaction open longer
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000  # Then a transactional id is forgotten that nobody used.
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    # KIP-890 part 1; with version 2 there is always a verification
    transaction_partition_verification_enable: bool = True
    add_partitions_to_txn_retry_backoff_ms: int = 20  # Less answers a producer sooner, for more questions.
    add_partitions_to_txn_retry_backoff_max_ms: int = 100  # All retries of one question share it.
