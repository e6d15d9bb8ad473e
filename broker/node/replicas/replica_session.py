"""A follower's side of an incremental fetch session (KIP-227): what its next request to a leader must say.

Owns the session's id and epoch, and what the leader was told of each partition. The first request is a full one. Later
ones name the partitions that changed, and drop those that are no longer followed there. After any error the next
request is a full one. Pure: knows no channel. Shown by tests/broker_node/test_node_replica_session.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple
from uuid import UUID

from broker.node.replicas.fetch_sessions import EPOCH_MAX, FULL_EPOCH, NO_SESSION
from broker.node.replicas.hosted import HostedPartition
from broker.wire.errors import ErrorCode
from broker.wire.hot_fetch import FetchPartition

# The leader has no such session: there is nothing to close. After any other error the old one is named, to close it.
_GONE = ErrorCode.fetch_session_id_not_found


class Names(NamedTuple):
    """Of one request, by topic id."""

    asked: dict[UUID, list[FetchPartition]]
    forgotten: dict[UUID, list[int]]


class ReplicaSession:
    """One leader's. `position` says what is to be asked of a partition now."""

    def __init__(self, position: Callable[[HostedPartition], FetchPartition]) -> None:
        self._position = position
        self.session_id, self.epoch = NO_SESSION, FULL_EPOCH
        self._asked: dict[HostedPartition, FetchPartition] = {}  # what the leader was told last
        self._followed: list[HostedPartition] | None = None  # the list that was compared last
        self._by_id: dict[UUID, dict[int, HostedPartition]] = {}
        self._moved: dict[HostedPartition, None] = {}  # those that answers have changed since

    @property
    def is_full(self) -> bool:
        return self.epoch == FULL_EPOCH

    def asked_of(self, hosted: HostedPartition) -> FetchPartition | None:
        """What the answer is to; None: it was not asked for."""
        return self._asked.get(hosted)

    def find(self, topic_id: UUID | None, index: int) -> HostedPartition | None:
        """What an answer is for."""
        return None if topic_id is None else self._by_id.get(topic_id, {}).get(index)

    def moved(self, hosted: HostedPartition) -> None:
        """An answer was taken in: what is asked of this partition may be another."""
        self._moved[hosted] = None

    def names(self, followed: list[HostedPartition]) -> Names:
        """What the next request says. `followed` is another list whenever anything but answers may have changed it."""
        forgotten: dict[UUID, list[int]] = {}
        candidates: Iterable[HostedPartition] = self._moved
        if followed is not self._followed:
            self._followed = candidates = followed
            self._by_id = {}
            for hosted in followed:
                self._by_id.setdefault(hosted.topic_id, {})[hosted.index] = hosted
            still = set(followed)
            for hosted in [each for each in self._asked if each not in still]:
                forgotten.setdefault(hosted.topic_id, []).append(hosted.index)
                del self._asked[hosted]
        if self.is_full:
            candidates, forgotten = followed, {}
            self._asked.clear()
        asked: dict[UUID, list[FetchPartition]] = {}
        for hosted in candidates:
            position = self._position(hosted)
            if self._asked.get(hosted) != position:
                self._asked[hosted] = position
                asked.setdefault(hosted.topic_id, []).append(position)
        self._moved = {}
        return Names(asked, forgotten)

    def answered(self, error: ErrorCode, session_id: int) -> bool:
        """False: the answer is of no use, and the next request is a full one."""
        if error is not ErrorCode.none:
            self.failed(closes=error is not _GONE)
            return False
        if self.is_full:
            # A leader without room for a session gives none: the next request is a full one again.
            self.session_id, self.epoch = session_id, 1 if session_id != NO_SESSION else FULL_EPOCH
            return True
        if session_id != self.session_id:  # closed by the leader: nothing was left in it
            self.failed(closes=False)
            return False
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1
        return True

    def failed(self, *, closes: bool = True) -> None:
        """It is unknown whether the leader saw the last request: begin anew. `closes`: also end the old session."""
        self.epoch = FULL_EPOCH
        if not closes:
            self.session_id = NO_SESSION
