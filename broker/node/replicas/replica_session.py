"""A follower's side of an incremental fetch session (KIP-227): the content of its next request to a leader.

Owns: the session's id and epoch, and what the leader was told about each partition. The first request is a full one.
Later requests name the partitions that have changed, and remove those that no longer follow this leader. After any
error the next request is a full one. It is pure and knows no channel. Shown by
tests/broker_node/test_node_replica_session.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple
from uuid import UUID

from broker.node.replicas.fetch_sessions import EPOCH_MAX, FULL_EPOCH, NO_SESSION
from broker.node.replicas.hosted import HostedPartition
from broker.wire.errors import ErrorCode
from broker.wire.hot_fetch import FetchPartition

# The leader has no such session, so there is nothing to close. After any other error the next request names the old
# session, to close it.
_GONE = ErrorCode.fetch_session_id_not_found


class Names(NamedTuple):
    """The partitions of one request, by topic id."""

    asked: dict[UUID, list[FetchPartition]]
    forgotten: dict[UUID, list[int]]


class ReplicaSession:
    """The session with one leader. `position` returns what a request must now say about a partition."""

    def __init__(self, position: Callable[[HostedPartition], FetchPartition]) -> None:
        self._position = position
        self.session_id, self.epoch = NO_SESSION, FULL_EPOCH
        self._asked: dict[HostedPartition, FetchPartition] = {}  # what the leader was last told
        self._followed: list[HostedPartition] | None = None  # the list that was last compared
        self._by_id: dict[UUID, dict[int, HostedPartition]] = {}
        self._moved: dict[HostedPartition, None] = {}  # partitions that answers have changed since

    @property
    def is_full(self) -> bool:
        return self.epoch == FULL_EPOCH

    def asked_of(self, hosted: HostedPartition) -> FetchPartition | None:
        """The part of the request for this partition. None if it was not in the session."""
        return self._asked.get(hosted)

    def find(self, topic_id: UUID | None, index: int) -> HostedPartition | None:
        """The partition to which a part of an answer belongs."""
        return None if topic_id is None else self._by_id.get(topic_id, {}).get(index)

    def moved(self, hosted: HostedPartition) -> None:
        """An answer was handled: the next request for this partition may be different."""
        self._moved[hosted] = None

    def names(self, followed: list[HostedPartition]) -> Names:
        """The partitions in the next request. `followed` must be a new list object whenever anything except answers may
        have changed a partition."""
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
        """Takes the answer. If it returns False, the answer is not usable, and the next request is a full one."""
        if error is not ErrorCode.none:
            self.failed(closes=error is not _GONE)
            return False
        if self.is_full:
            # A leader that has no room opens no session. The next request is then a full one again.
            self.session_id, self.epoch = session_id, 1 if session_id != NO_SESSION else FULL_EPOCH
            return True
        if session_id != self.session_id:  # the leader has closed it, because no partition was left in it
            self.failed(closes=False)
            return False
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1
        return True

    def failed(self, *, closes: bool = True) -> None:
        """It is unknown whether the leader has seen the last request, so a new session begins. With `closes` the old
        session is ended too."""
        self.epoch = FULL_EPOCH
        if not closes:
            self.session_id = NO_SESSION
