"""How many bytes a second all moves between directories may copy.

Owns: the rate over a sliding window. Shown by tests/broker_node/test_node_moves_throttle.py.
"""

from __future__ import annotations

from broker.node.net.rate_window import RateWindow
from broker.node.settings.values import LONG_MAX


class Throttle:
    """Limits the bytes a second. While no rate is set, nothing is measured. Pure: the caller passes the time."""

    __slots__ = ("_rate", "_window")

    def __init__(self, *, window_count: int, window_size_ms: int) -> None:
        self._rate = LONG_MAX  # bytes a second
        # Kafka's SimpleRate: a first burst is not spread over the whole window, as it is for clients.
        self._window = RateWindow(count=window_count, size_ms=window_size_ms, elapsed_windows_min=1)

    def set_rate(self, rate: int) -> None:
        self._rate = rate

    def record(self, size_bytes: int, now_ms: int) -> None:
        self._window.add(size_bytes, now_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        return self._rate < LONG_MAX and self._window.per_second(now_ms) > self._rate
