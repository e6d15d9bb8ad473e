"""Replication throttles (KIP-73): how many bytes of chosen replicas a broker sends to followers and fetches from
leaders in a second.

Owns: the two rates of a broker (leader.replication.throttled.rate, follower.replication.throttled.rate), each over a
sliding window of replication.quota.window.num samples. The topics' settings choose the replicas that count
(`ThrottledReplicas` of broker/node/settings/topic_config.py).

As in Kafka, all bytes that are copied to or from these replicas count, but only a replica that is out of sync has to
wait. The leader then leaves its records out of the answer, and the follower does not fetch it. Only the bytes of
records count. Kafka's leader also counts the frame around them.

The module is pure: the caller passes the time. Shown by tests/broker_node/test_node_replication_quotas.py.
"""

from __future__ import annotations

from broker.node.net.rate_window import RateWindow
from broker.node.settings.sections.replication import ReplicationSettings
from broker.node.settings.values import LONG_MAX


class ReplicationQuota:
    """The quota for one direction. `is_limited` is False while no rate is set. Then nothing is measured."""

    __slots__ = ("_rate", "_window", "is_limited")

    def __init__(self, *, window_count: int, window_size_ms: int) -> None:
        self._rate = LONG_MAX  # bytes a second
        # Kafka's SimpleRate: a first burst is not spread over the whole window, as it is for clients.
        self._window = RateWindow(count=window_count, size_ms=window_size_ms, elapsed_windows_min=1)
        self.is_limited = False

    def set_rate(self, rate: int) -> None:
        self._rate, self.is_limited = rate, rate < LONG_MAX

    def record(self, size_bytes: int, now_ms: int) -> None:
        self._window.add(size_bytes, now_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        return self.is_limited and self._window.per_second(now_ms) > self._rate


class ReplicationQuotas:
    """The quotas of a broker."""

    def __init__(self, settings: ReplicationSettings) -> None:
        count, size_ms = settings.replication_quota_window_num, settings.replication_quota_window_size_seconds * 1000
        self.leader = ReplicationQuota(window_count=count, window_size_ms=size_ms)
        self.follower = ReplicationQuota(window_count=count, window_size_ms=size_ms)
        self.reconfigure(settings)

    def reconfigure(self, settings: ReplicationSettings) -> None:
        """`settings` include settings that were changed at run time."""
        self.leader.set_rate(settings.leader_replication_throttled_rate)
        self.follower.set_rate(settings.follower_replication_throttled_rate)
