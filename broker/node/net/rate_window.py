"""A rate over a sliding window, by Kafka's formula. It is pure: the caller passes the time.

Shown by tests/broker_node/test_node_rate_window.py.
"""

from __future__ import annotations


class RateWindow:
    """The sum of the last `count` samples of `size_ms` each."""

    __slots__ = ("_count", "_elapsed_ms_min", "_samples", "_size_ms")

    def __init__(self, *, count: int, size_ms: int, elapsed_windows_min: int | None = None) -> None:
        """`elapsed_windows_min` is the number of samples over which a first burst is spread. None means all samples but
        one."""
        self._count, self._size_ms = count, size_ms
        self._elapsed_ms_min = max(1, count - 1 if elapsed_windows_min is None else elapsed_windows_min) * size_ms
        self._samples: list[tuple[int, float]] = []  # (begin, amount), the oldest first

    def add(self, amount: float, now_ms: int) -> None:
        if self._samples and now_ms - self._samples[-1][0] < self._size_ms:
            begin_ms, before = self._samples[-1]
            self._samples[-1] = (begin_ms, before + amount)
        else:
            self._samples.append((now_ms, amount))
            del self._samples[: -self._count]

    def per_second(self, now_ms: int) -> float:
        oldest_ms = now_ms - self._count * self._size_ms
        while self._samples and self._samples[0][0] <= oldest_ms:
            del self._samples[0]
        if not self._samples:
            return 0.0
        total = sum(amount for _, amount in self._samples)
        return total * 1000 / max(now_ms - self._samples[0][0], self._elapsed_ms_min)
