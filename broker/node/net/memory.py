"""The memory of requests that are arriving (queued.max.request.bytes): which connections may be read, and which must
wait.

The first buffer of a connection does not count. Everything beyond it counts: the buffer that a connection has, and
what an unfinished request may still need. The rule is Kafka's: while any memory is left, the next request is accepted.
So one request may exceed the limit, and no request waits for ever because it is large. Waiting connections are not
read, so TCP slows their clients down. They continue in the order of arrival. A quarter of the memory is reserved for
requests of ordinary size. So a few huge requests that stop halfway do not block the Produce requests of all clients.

A connection between two requests may keep its buffer, because the next request is often as large. Such a buffer is
spare: when memory is short, spare buffers are given back first, the oldest one first.
Shown by tests/broker_node/test_node_memory.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

Resume: TypeAlias = Callable[[], None]
Reclaim: TypeAlias = Callable[[], int]  # gives a spare buffer up; returns its size in bytes

# twice message.max.bytes: requests of producers with default settings are smaller
ORDINARY_REQUEST_BYTES = 2 * 1024 * 1024


def _nothing() -> None:
    return None


class _Wanted(NamedTuple):
    more_bytes: int
    held_bytes: int


class RequestMemory:
    """Invariants: no request waits while less memory is in use than the limit for its size, nor while all memory is
    held by requests that wait. `used_bytes` is at most the limit and two requests. A limit below 0 means no limit.

    `on_wait` is called when a request has to wait. Then the owner should check which requests hold the memory.
    """

    def __init__(self, *, limit_bytes: int, on_wait: Callable[[], None] = _nothing) -> None:
        self._limit_bytes = limit_bytes
        self._on_wait = on_wait
        self.used_bytes = 0
        self._held_by_waiting = 0  # the part of `used_bytes` that requests hold which wait for more
        self._waiting: dict[Resume, _Wanted] = {}  # requests of ordinary size, in order of arrival
        self._huge_waiting: dict[Resume, _Wanted] = {}
        self._spare: dict[Reclaim, None] = {}  # in the order in which they became spare

    def has_room(self, size_bytes: int) -> bool:
        """Whether a request of this size need not wait now. Spare buffers may be given back for it."""
        is_huge = size_bytes > ORDINARY_REQUEST_BYTES
        return not (self._huge_waiting if is_huge else self._waiting) and self._is_open(is_huge=is_huge)

    @property
    def waiting(self) -> int:
        return len(self._waiting) + len(self._huge_waiting)

    def take(self, more_bytes: int, resume: Resume, *, held_bytes: int = 0) -> bool:
        """Takes bytes for a request that holds some already, and returns True. If it returns False, the caller must
        wait: `resume` is called once, when the bytes are taken for it. That may be before this method returns."""
        if self.has_room(more_bytes + held_bytes):
            self.used_bytes += more_bytes
            return True
        waiting = self._huge_waiting if more_bytes + held_bytes > ORDINARY_REQUEST_BYTES else self._waiting
        waiting[resume] = _Wanted(more_bytes, held_bytes)
        self._held_by_waiting += held_bytes
        self._on_wait()
        self._resume_waiting()
        return False

    def take_at_once(self, more_bytes: int) -> bool:
        """Takes bytes that are useful but not needed. False: they are not there."""
        if self._limit_bytes >= 0 and (self.waiting or self.used_bytes + more_bytes > self._limit_bytes):
            return False
        self.used_bytes += more_bytes
        return True

    def move_to(self, other: RequestMemory, size_bytes: int) -> None:
        """Bytes in use count for another budget from now on."""
        other.used_bytes += size_bytes
        self.give_back(size_bytes)

    def spare(self, reclaim: Reclaim) -> None:
        """The caller's buffer is empty. If the memory is needed, `reclaim` is called, once."""
        self._spare[reclaim] = None
        self._resume_waiting()

    def in_use(self, reclaim: Reclaim) -> None:
        """The caller's buffer is used again."""
        self._spare.pop(reclaim, None)

    def give_up(self, resume: Resume) -> None:
        """The waiting connection is gone. What it holds it gives back itself."""
        for waiting in (self._waiting, self._huge_waiting):
            wanted = waiting.pop(resume, None)
            if wanted is not None:
                self._held_by_waiting -= wanted.held_bytes

    def give_back(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes
        assert self.used_bytes >= self._held_by_waiting
        self._resume_waiting()

    def _resume_waiting(self) -> None:
        for waiting, is_huge in ((self._waiting, False), (self._huge_waiting, True)):
            while waiting and self._is_open(is_huge=is_huge):
                resume = next(iter(waiting))
                wanted = waiting.pop(resume)
                self.used_bytes += wanted.more_bytes
                self._held_by_waiting -= wanted.held_bytes
                resume()

    def _is_open(self, *, is_huge: bool) -> bool:
        """Whether one more request may be taken. Spare buffers are given back for it."""
        open_bytes = self._limit_bytes * 3 // 4 if is_huge else self._limit_bytes
        if self._limit_bytes < 0 or self.used_bytes < open_bytes:
            return True
        while self._spare and self.used_bytes >= open_bytes:
            reclaim = next(iter(self._spare))
            del self._spare[reclaim]
            self.used_bytes -= reclaim()
        # Requests that all wait for more would wait for one another. The first of them gets what it needs.
        return self.used_bytes < open_bytes or self.used_bytes == self._held_by_waiting
