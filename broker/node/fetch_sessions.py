"""Incremental fetch sessions (KIP-227): a client names its partitions once, then what changes; so does the broker.

Owns the sessions of this broker, their number (max.incremental.fetch.session.cache.slots), who makes room for whom, and
which partitions an answer may leave out. Pure: the clock comes in. Knows no log. Shown by
tests/broker_node/test_node_fetch_sessions.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias
from uuid import UUID

from broker.wire.errors import ErrorCode

NO_SESSION = 0
FULL_EPOCH = 0  # a full request that asks for a session
FINAL_EPOCH = -1  # a full request that ends the session, or wants none
EPOCH_MAX = 2**31 - 1
EVICTION_MS = 120_000  # Kafka's constant: a session unused so long makes room for any other

# topic name, or its id since version 13; partition
Key: TypeAlias = tuple[str | UUID, int]


class AskedPartition(NamedTuple):
    """What a client wants of one partition."""

    topic: str | None  # None: an unknown topic id
    topic_id: UUID | None
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs
    offset: int
    current_leader_epoch: int
    last_fetched_epoch: int
    max_bytes: int
    log_start_offset: int  # of the replica that asks; -1 for consumers

    @property
    def key(self) -> Key:
        return (self.topic_id if self.topic_id is not None else self.topic or "", self.index)


@dataclass(slots=True)
class _Told:
    """What the last answer said of a partition."""

    high_watermark: int = -1
    log_start_offset: int = -1


@dataclass(slots=True, kw_only=True)
class FetchSession:
    """`asked` is ordered: what was served goes to the end, so that no partition starves."""

    session_id: int
    is_replica: bool
    uses_ids: bool
    last_used_ms: int
    epoch: int = 1  # that the next request must carry
    asked: dict[Key, AskedPartition] = field(default_factory=dict)
    told: dict[Key, _Told] = field(default_factory=dict)

    def update(self, changed: Iterable[AskedPartition], forgotten: Iterable[Key]) -> None:
        for key in forgotten:
            self.asked.pop(key, None)
            self.told.pop(key, None)
        for partition in changed:
            self.asked[partition.key] = partition

    def must_tell(
        self, key: Key, *, high_watermark: int, log_start_offset: int, has_records: bool, has_news: bool
    ) -> bool:
        """Whether the answer must hold this partition; notes what it says. `has_news`: an error, or a diverging log."""
        told = self.told.setdefault(key, _Told())
        is_changed = told.high_watermark != high_watermark or told.log_start_offset != log_start_offset
        told.high_watermark, told.log_start_offset = high_watermark, log_start_offset
        if has_records and key in self.asked:
            self.asked[key] = self.asked.pop(key)
        if has_news:
            told.high_watermark = -1  # what comes after an error is told in any case
        return has_records or is_changed or has_news


class FetchSessions:
    """Invariant: at most `slots` sessions."""

    def __init__(self, *, slots: int, rng: random.Random) -> None:
        self._slots, self._rng = slots, rng
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        return sum(len(session.asked) for session in self._sessions.values())

    def close(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    def open(
        self, asked: Iterable[AskedPartition], *, is_replica: bool, uses_ids: bool, now_ms: int
    ) -> FetchSession | None:
        """A new session; None when there is no room, or nothing asked: the client then sends full requests."""
        partitions = {partition.key: partition for partition in asked}
        if not partitions or not self._make_room(len(partitions), is_replica=is_replica, now_ms=now_ms):
            return None
        session_id = self._rng.randrange(1, EPOCH_MAX)
        while session_id in self._sessions:
            session_id = self._rng.randrange(1, EPOCH_MAX)
        session = FetchSession(
            session_id=session_id, is_replica=is_replica, uses_ids=uses_ids, last_used_ms=now_ms, asked=partitions
        )
        self._sessions[session_id] = session
        return session

    def resume(
        self, session_id: int, epoch: int, *, uses_ids: bool, now_ms: int
    ) -> tuple[FetchSession | None, ErrorCode]:
        """The session of an incremental request, its epoch counted on; or why it must begin anew."""
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
        """Kafka's rules: an idle session goes first; else a replica's or a larger one displaces the least of them."""
        if len(self._sessions) < self._slots:
            return True
        if not self._sessions:
            return False
        oldest = min(self._sessions.values(), key=lambda each: each.last_used_ms)
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            self.close(oldest.session_id)
            return True
        least = min(self._sessions.values(), key=lambda each: (each.is_replica, len(each.asked), each.last_used_ms))
        if (is_replica, size) <= (least.is_replica, len(least.asked)):
            return False
        self.close(least.session_id)
        return True
