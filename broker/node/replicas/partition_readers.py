"""The readers of a partition, which are told about news: fetches that wait, and fetch sessions (KIP-227).

A waiting fetch is called. A session notes the partition, and its next answer looks only at noted partitions. The module
owns no partition and no session. Shown by tests/broker_node/test_node_fetch_sessions.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

Wake: TypeAlias = Callable[[], None]


class Wakes:
    """The callbacks to call when there is news. This set keeps the order of arrival. So the callback that has waited
    longest is called first, and a simulated run can be repeated exactly."""

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
    """A partition in a fetch session."""

    @property
    def replica_id(self) -> int:
        """The follower whose session it is. -1: the session of a consumer."""

    def note(self, *, wakes: bool) -> None:
        """The partition has news. With `wakes`, a waiting fetch of the session looks at once. Without it, the fetch
        looks when it answers for another reason. The call may remove this entry from `noting`.
        """


class Readers:
    """The readers of one partition."""

    __slots__ = ("consumers", "followers", "noting")

    def __init__(self) -> None:
        self.followers = Wakes()  # fetches of replicas without a session
        self.consumers = Wakes()  # fetches of consumers without a session
        self.noting: dict[Noting, None] = {}  # entries of sessions

    def appended(self) -> None:
        """The log end offset has risen."""
        for each in tuple(self.noting):
            each.note(wakes=each.replica_id >= 0)
        self.followers.call_all()

    def committed(self) -> None:
        """The high watermark has risen. Followers learn it with the answer for which they wait."""
        for each in tuple(self.noting):
            each.note(wakes=each.replica_id < 0)
        self.consumers.call_all()

    def log_start_moved(self, *, wakes_followers: bool) -> None:
        for each in tuple(self.noting):
            each.note(wakes=wakes_followers and each.replica_id >= 0)
        if wakes_followers:
            self.followers.call_all()

    def isr_changed(self) -> None:
        """An idle follower may have to join the ISR again with its next fetch. So its next fetch must look at the
        partition."""
        for each in tuple(self.noting):
            each.note(wakes=False)

    def role_changed(self) -> None:
        """The role has changed, or the partition is gone."""
        for each in tuple(self.noting):
            each.note(wakes=True)
        self.followers.call_all()
        self.consumers.call_all()

    def fetched_by(self, replica_id: int, noting: Noting | None) -> None:
        """The follower has sent its offset in this session, or without a session. Its other sessions must look
        again."""
        for each in tuple(self.noting):
            if each is not noting and each.replica_id == replica_id:
                each.note(wakes=False)
