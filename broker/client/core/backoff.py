"""How long to wait before trying again (KIP-580). The wait doubles from a first value up to a maximum, with jitter."""

from __future__ import annotations

import random

_EXPONENT_MAX = 30  # 2**30 times any first wait is above every maximum; the limit keeps the power small
_JITTER = 0.2


def backoff_ms(attempts: int, first_ms: int, longest_ms: int, rng: random.Random) -> int:
    """The wait after the `attempts`-th failure, counted from 1. As in Java, it is never above the larger of the two
    limits."""
    if first_ms == 0:
        return 0
    if first_ms >= longest_ms:
        return first_ms
    wait_ms = first_ms << min(attempts - 1, _EXPONENT_MAX)
    return min(round(wait_ms * rng.uniform(1 - _JITTER, 1 + _JITTER)), longest_ms)


class Backoff:
    """The failures since the last success, and when the next try is allowed."""

    __slots__ = ("_first_ms", "_longest_ms", "_random", "attempts", "not_before_ms")

    def __init__(self, first_ms: int, longest_ms: int, rng: random.Random) -> None:
        self._first_ms, self._longest_ms, self._random = first_ms, longest_ms, rng
        self.attempts = 0
        self.not_before_ms = 0

    def failed(self, now_ms: int) -> None:
        self.attempts += 1
        self.not_before_ms = now_ms + backoff_ms(self.attempts, self._first_ms, self._longest_ms, self._random)

    def succeeded(self) -> None:
        """The next try may begin at once."""
        self.attempts = self.not_before_ms = 0
