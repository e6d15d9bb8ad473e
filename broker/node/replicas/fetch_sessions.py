"""Incremental fetch sessions (KIP-227): a client names its partitions once, and afterwards only changes. The broker
does the same.

Owns:

- the sessions of this broker and their number (max.incremental.fetch.session.cache.slots)
- which session is evicted for which other one
- which partitions the next answer must look at, and which of those it may leave out

So the cost of a fetch depends on the changes, not on the size of its session. The module is pure: the caller passes the
time. It knows no log.
Shown by tests/broker_node/test_node_fetch_sessions.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias
from uuid import UUID

from broker.node.replicas.partition_readers import Readers, Wakes
from broker.replication import FetchTimes
from broker.wire.errors import ErrorCode

NO_SESSION = 0
FULL_EPOCH = 0  # a full request that asks for a session
FINAL_EPOCH = -1  # a full request that ends the session, or that wants no session
EPOCH_MAX = 2**31 - 1
EVICTION_MS = 120_000  # Kafka's constant: a session that was not used for this time is evicted for any other session

# the topic's name, or its id since version 13; and the partition
Key: TypeAlias = tuple[str | UUID, int]


class AskedPartition(NamedTuple):
    """The request of a client for one partition."""

    topic: str | None  # None: the topic id is unknown
    topic_id: UUID | None
    index: int  # type: ignore[assignment]  # hides tuple.index, which is not needed
    offset: int
    current_leader_epoch: int
    last_fetched_epoch: int
    max_bytes: int
    log_start_offset: int  # log start offset of the fetching replica; -1 for consumers

    @property
    def key(self) -> Key:
        return (self.topic_id if self.topic_id is not None else self.topic or "", self.index)


class Reader(NamedTuple):
    """The reader and its isolation level. If a partition has no news for one kind of reader, it may still have news for
    another kind."""

    replica_id: int  # -1 means a consumer
    replica_epoch: int
    is_read_committed: bool


class CachedPartition:
    """One partition of a session. If it is not pending, the client has everything and knows that, until the session
    notes news.

    So the code that removes it from `pending` must register it with the partition's readers, because these note the
    news.
    """

    __slots__ = ("asked", "readers", "session", "told_high_watermark", "told_log_start_offset")

    def __init__(self, session: FetchSession, asked: AskedPartition) -> None:
        self.session, self.asked = session, asked
        self.readers: Readers | None = None
        self.told_high_watermark = self.told_log_start_offset = -1  # values that the last answer told

    @property
    def replica_id(self) -> int:
        return self.session.reader.replica_id

    def note(self, *, wakes: bool) -> None:
        """The partition has news. If no request waits, it also stops watching: the next request looks at the partition
        and watches it again. So an abandoned session is noted only once."""
        session = self.session
        session.pending[self] = None
        if not session.wakes:
            self.unwatch()
        elif wakes:
            session.wakes.call_all()

    def watch(self, readers: Readers) -> None:
        if self.readers is not readers and not self.session.is_closed:
            self.unwatch()
            self.readers = readers
            readers.noting[self] = None

    def unwatch(self) -> None:
        if self.readers is not None:
            self.readers.noting.pop(self, None)
            self.readers = None

    def must_tell(self, *, high_watermark: int, log_start_offset: int, has_records: bool, has_news: bool) -> bool:
        """Whether the answer must contain this partition. Notes the values that the answer will tell.

        `has_news` stands for an error, a diverging log, or deleted records that the replica still has.
        """
        is_changed = self.told_high_watermark != high_watermark or self.told_log_start_offset != log_start_offset
        self.told_high_watermark, self.told_log_start_offset = high_watermark, log_start_offset
        if has_news:
            self.told_high_watermark = -1  # the answer after an error contains the partition in any case
        return has_records or is_changed or has_news


class FetchSession:
    """`pending` is ordered: a partition that was served goes to the end, so that no partition starves."""

    def __init__(
        self, *, session_id: int, reader: Reader, uses_ids: bool, now_ms: int, asked: Iterable[AskedPartition]
    ) -> None:
        self.session_id, self.reader, self.uses_ids, self.last_used_ms = session_id, reader, uses_ids, now_ms
        self.epoch = 1  # epoch that the next request must have
        self.fetches = FetchTimes(last_ms=now_ms)
        self.is_closed = False
        self.wakes = Wakes()  # the requests that wait
        self.partitions: dict[Key, CachedPartition] = {}
        self.pending: dict[CachedPartition, None] = {}
        self.update(asked, ())

    @property
    def is_replica(self) -> bool:
        return self.reader.replica_id >= 0

    def update(self, changed: Iterable[AskedPartition], forgotten: Iterable[Key]) -> list[CachedPartition]:
        """Takes the partitions of the request. Returns those that are no longer in the session."""
        gone = []
        for key in forgotten:
            cached = self.partitions.pop(key, None)
            if cached is not None:
                self.pending.pop(cached, None)
                cached.unwatch()
                gone.append(cached)
        for asked in changed:
            cached = self.partitions.get(asked.key)
            if cached is None:
                cached = self.partitions[asked.key] = CachedPartition(self, asked)
            elif cached.asked.current_leader_epoch != asked.current_leader_epoch:
                # the client may have dropped the values that it was told in the old epoch
                cached.told_high_watermark = -1
            cached.asked = asked
            self.pending[cached] = None
        return gone

    def read_by(self, reader: Reader) -> None:
        if reader != self.reader:
            self.reader = reader
            self.pending.update(dict.fromkeys(self.partitions.values()))

    def served(self, cached: CachedPartition) -> None:
        self.pending.pop(cached, None)
        self.pending[cached] = None

    def settle(self, cached: CachedPartition) -> None:
        """The client has all records of this partition and was told so."""
        assert cached.readers is not None, "what comes is noted"
        self.pending.pop(cached, None)

    def close(self) -> None:
        self.is_closed = True
        for cached in self.partitions.values():
            cached.unwatch()


class FetchSessions:
    """Invariant: at most `slots` sessions."""

    def __init__(self, *, slots: int, rng: random.Random) -> None:
        self._slots, self._rng = slots, rng
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def open(
        self, asked: Iterable[AskedPartition], *, reader: Reader, uses_ids: bool, now_ms: int
    ) -> FetchSession | None:
        """Opens a session. None if there is no room or the request has no partitions: the client then sends full
        requests.

        A replica has at most one session. It may have died, or dropped its fetcher, without ending the last one.
        """
        if reader.replica_id >= 0:
            for session in [each for each in self._sessions.values() if each.reader.replica_id == reader.replica_id]:
                self.close(session.session_id)
        partitions = {partition.key: partition for partition in asked}
        is_replica = reader.replica_id >= 0
        if not partitions or not self._make_room(len(partitions), is_replica=is_replica, now_ms=now_ms):
            return None
        session_id = self._rng.randrange(1, EPOCH_MAX)
        while session_id in self._sessions:
            session_id = self._rng.randrange(1, EPOCH_MAX)
        session = FetchSession(
            session_id=session_id, reader=reader, uses_ids=uses_ids, now_ms=now_ms, asked=partitions.values()
        )
        self._sessions[session_id] = session
        return session

    def resume(
        self, session_id: int, epoch: int, *, uses_ids: bool, now_ms: int
    ) -> tuple[FetchSession | None, ErrorCode]:
        """The session of an incremental request; its epoch is raised. Or the error, after which the client must begin a
        new session."""
        session = self._sessions.get(session_id)
        if session is None:
            return None, ErrorCode.fetch_session_id_not_found
        if session.epoch != epoch:
            return None, ErrorCode.invalid_fetch_session_epoch
        if session.uses_ids != uses_ids:
            return None, ErrorCode.fetch_session_topic_id_error
        session.last_used_ms = now_ms
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        return session, ErrorCode.none

    def _make_room(self, size: int, *, is_replica: bool, now_ms: int) -> bool:
        """Evicts a session by Kafka's rules. An idle session goes first. Otherwise the session that ranks lowest goes,
        if the new one ranks higher. Sessions of consumers rank below those of replicas, and then smaller ones below
        larger ones."""
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        oldest = min(self._sessions.values(), key=lambda each: each.last_used_ms)
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            self.close(oldest.session_id)
            return True
        least = min(
            self._sessions.values(), key=lambda each: (each.is_replica, len(each.partitions), each.last_used_ms)
        )
        if (is_replica, size) <= (least.is_replica, len(least.partitions)):
            return False
        self.close(least.session_id)
        return True
