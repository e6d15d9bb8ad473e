"""The memory of requests that are arriving (queued.max.request.bytes): who may go on reading, and who waits.

Only requests that outgrow a connection's first buffer count. Kafka's rule: while anything is left, the next one is let
in, so one request may go beyond the limit and none can wait for ever for being large. Waiting connections are not read,
so TCP holds their clients back; they go on in the order of arrival. Shown by tests/broker_node/test_node_memory.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Resume: TypeAlias = Callable[[], None]


class RequestMemory:
    """Invariant: nobody waits while less than the limit is in use. A limit below 0 is none."""

    def __init__(self, *, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.used_bytes = 0
        self._waiting: dict[Resume, int] = {}  # in order of arrival

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def take(self, size_bytes: int, resume: Resume) -> bool:
        """False: wait; `resume` is called once, when the bytes are taken for the asker."""
        if self._limit_bytes >= 0 and (self.used_bytes >= self._limit_bytes or self._waiting):
            self._waiting[resume] = size_bytes
            return False
        self.used_bytes += size_bytes
        return True

    def give_up(self, resume: Resume) -> None:
        """The asker is gone."""
        self._waiting.pop(resume, None)

    def give_back(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes
        assert self.used_bytes >= 0
        while self._waiting and self.used_bytes < self._limit_bytes:
            resume = next(iter(self._waiting))
            self.used_bytes += self._waiting.pop(resume)
            resume()
