"""The memory of requests that are arriving (queued.max.request.bytes): which connections may be read, and which must
wait.

Only requests that are larger than a connection's first buffer count. The rule is Kafka's: while any memory is left, the
next request is accepted. So one request may exceed the limit, and no request waits for ever because it is large.
Waiting connections are not read, so TCP slows their clients down. They continue in the order of arrival. A quarter of
the memory is reserved for requests of ordinary size. So a few huge requests that stop halfway do not block the Produce
requests of all clients. Shown by tests/broker_node/test_node_memory.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Resume: TypeAlias = Callable[[], None]

# twice message.max.bytes: requests of producers with default settings are smaller
ORDINARY_REQUEST_BYTES = 2 * 1024 * 1024


def _nothing() -> None:
    return None


class RequestMemory:
    """Invariant: no request waits while less memory is in use than the limit for its size. A limit below 0 means no
    limit.

    `on_wait` is called when a request has to wait. Then the owner should check which requests hold the memory.
    """

    def __init__(self, *, limit_bytes: int, on_wait: Callable[[], None] = _nothing) -> None:
        self._limit_bytes = limit_bytes
        self._on_wait = on_wait
        self.used_bytes = 0
        self._waiting: dict[Resume, int] = {}  # requests of ordinary size, in order of arrival
        self._huge_waiting: dict[Resume, int] = {}

    @property
    def waiting(self) -> int:
        return len(self._waiting) + len(self._huge_waiting)

    def take(self, size_bytes: int, resume: Resume) -> bool:
        """Takes the bytes and returns True. If it returns False, the caller must wait: `resume` is called once, when
        the bytes are taken for it."""
        is_huge = size_bytes > ORDINARY_REQUEST_BYTES
        waiting = self._huge_waiting if is_huge else self._waiting
        if self._limit_bytes >= 0 and (self.used_bytes >= self._open_bytes(is_huge) or waiting):
            waiting[resume] = size_bytes
            self._on_wait()
            return False
        self.used_bytes += size_bytes
        return True

    def give_up(self, resume: Resume) -> None:
        """The waiting connection is gone."""
        self._waiting.pop(resume, None)
        self._huge_waiting.pop(resume, None)

    def give_back(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes
        assert self.used_bytes >= 0
        for waiting, is_huge in ((self._waiting, False), (self._huge_waiting, True)):
            while waiting and self.used_bytes < self._open_bytes(is_huge):
                resume = next(iter(waiting))
                self.used_bytes += waiting.pop(resume)
                resume()

    def _open_bytes(self, is_huge: bool) -> int:
        return self._limit_bytes * 3 // 4 if is_huge else self._limit_bytes
