"""Settings of replication: what followers ask for, when they leave the ISR, and the rate of moves.

Shown by tests/broker_node/test_node_fetcher.py and tests/broker_node/test_node_moves.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.node.settings.sections.section import setting
from broker.node.settings.values import LONG_MAX, positive, selector


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSettings:
    # The default is Kafka's. A follower that is cut off stays in the ISR for this time, and acks=all waits for it as
    # long.
    replica_lag_time_max_ms: int = 30_000
    replica_selector_class: str = setting("", selector)  # empty: consumers read from leaders
    replica_fetch_wait_max_ms: int = 500  # A leader holds an empty answer for it. More costs fewer requests.
    replica_fetch_min_bytes: int = 1  # More waits for larger answers, and acknowledges later.
    replica_fetch_max_bytes: int = 1 << 20  # of one partition in an answer; a larger batch is sent whole
    replica_fetch_response_max_bytes: int = 10 << 20  # of one answer; more needs more memory
    replica_fetch_backoff_ms: int = 100  # Kafka: 1000. From a failure to the next attempt.
    # Kafka: 30000. A silently broken link is noticed after this time. Brokers use it for other questions too.
    replica_socket_timeout_ms: int = 2_000
    replica_alter_log_dirs_io_max_bytes_per_second: int = LONG_MAX  # Less makes moves between directories slower.
    # The rate is measured over `num` windows of `size` seconds. Longer ones allow longer bursts.
    alter_log_dirs_replication_quota_window_num: int = setting(11, positive)
    alter_log_dirs_replication_quota_window_size_seconds: int = setting(1, positive)
