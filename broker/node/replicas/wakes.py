"""Who reads a partition and is told when something comes: fetches that wait, and fetch sessions (KIP-227).

A waiting fetch is called. A session notes the partition, and its next answer looks at what was noted, at nothing else.
Owns no partition and no session. Shown by tests/broker_node/test_node_fetch_sessions.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

Wake: TypeAlias = Callable[[], None]


class Wakes:
    """The callbacks to call when something comes. This set keeps the order of arrival. So the one that waited longest
    is called first, and a simulated run repeats itself."""

    __slots__ = ("_wakes",)

    def __init__(self) -> None:
        self._wakes: dict[Wake, None] = {}

    def add(self, wake: Wake) -> None:
        self._wakes[wake] = None

    def discard(self, wake: Wake) -> None:
        self._wakes.pop(wake, None)

    def __bool__(self) -> bool:
        return bool(self._wakes)

    def call_all(self) -> None:
        if self._wakes:
            for wake in list(self._wakes):
                wake()


class Noting(Protocol):
    """A partition as a fetch session has it."""

    @property
    def replica_id(self) -> int:
        """Of the follower whose session it is; -1: a consumer's."""

    def note(self, *, wakes: bool) -> None:
        """Something is new. With `wakes`, a waiting fetch of the session looks at once. Otherwise it looks when it
        answers anyway. The call may remove this entry from `noting`.
        """


class Readers:
    """Of one partition."""

    __slots__ = ("consumers", "followers", "noting")

    def __init__(self) -> None:
        self.followers = Wakes()  # fetches without a session, of replicas
        self.consumers = Wakes()  # likewise, of consumers
        self.noting: dict[Noting, None] = {}  # by sessions

    def appended(self) -> None:
        """The log end offset grew."""
        for each in tuple(self.noting):
            each.note(wakes=each.replica_id >= 0)
        self.followers.call_all()

    def committed(self) -> None:
        """The high watermark grew. Followers learn it with the answer they wait for."""
        for each in tuple(self.noting):
            each.note(wakes=each.replica_id < 0)
        self.consumers.call_all()

    def log_start_moved(self, *, wakes_followers: bool) -> None:
        for each in tuple(self.noting):
            each.note(wakes=wakes_followers and each.replica_id >= 0)
        if wakes_followers:
            self.followers.call_all()

    def isr_changed(self) -> None:
        """A follower that idled may have to join the ISR again by its next fetch: look at it."""
        for each in tuple(self.noting):
            each.note(wakes=False)

    def role_changed(self) -> None:
        """Also: the partition is gone."""
        for each in tuple(self.noting):
            each.note(wakes=True)
        self.followers.call_all()
        self.consumers.call_all()

    def fetched_by(self, replica_id: int, noting: Noting | None) -> None:
        """The follower's offset came through this session, or through none. Its other sessions must look again."""
        for each in tuple(self.noting):
            if each is not noting and each.replica_id == replica_id:
                each.note(wakes=False)
