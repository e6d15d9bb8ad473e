"""Share sessions (KIP-932): what each member reads from this broker, and the epoch of its next request.

A session begins with epoch 0 and continues with 1, 2, and so on. It ends with -1, or when its connection is closed.
Shown by tests/broker_sharing/test_sharing_sessions.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID

from broker.wire.errors import ErrorCode

FIRST_EPOCH, FINAL_EPOCH = 0, -1
PLACES_MAX = 200_000  # All sessions share it, about 30 MB, because a client may name topics that do not exist.
EPOCH_MAX = 2**31 - 1
Place: TypeAlias = tuple[UUID, int]  # topic id, partition


@dataclass(slots=True, kw_only=True, eq=False)
class ShareSession:
    group_id: str
    member_id: str
    is_connected: Callable[[], bool]
    epoch: int = 1  # epoch of its next request
    # In the order in which they are read. With each request the first one moves to the end, so that none starves.
    places: dict[Place, None] = field(default_factory=dict)

    def turn(self) -> list[Place]:
        found = list(self.places)
        if found:
            self.places[found[0]] = self.places.pop(found[0])
        return found


class ShareSessions:
    def __init__(self, *, sessions_max: int, places_max: int = PLACES_MAX) -> None:
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self.sessions_max, self._places_max = sessions_max, places_max

    def __len__(self) -> int:
        return len(self._sessions)

    def of(self, group_id: str, member_id: str) -> ShareSession | None:
        return self._sessions.get((group_id, member_id))

    def has_group(self, group_id: str) -> bool:
        return any(group == group_id for group, _ in self._sessions)

    def open(
        self, group_id: str, member_id: str, places: Iterable[Place], is_connected: Callable[[], bool]
    ) -> ShareSession | ErrorCode:
        """Open a session (epoch 0). If the member had a session, it keeps the records that it holds."""
        key = (group_id, member_id)
        if key not in self._sessions and len(self._sessions) >= self.sessions_max:
            return ErrorCode.share_session_limit_reached
        session = ShareSession(group_id=group_id, member_id=member_id, is_connected=is_connected)
        old = self._sessions.pop(key, None)
        self._sessions[key] = session
        if not self.add(session, places):
            self._sessions.pop(key)
            if old is not None:
                self._sessions[key] = old
            return ErrorCode.share_session_limit_reached
        return session

    def add(self, session: ShareSession, places: Iterable[Place]) -> bool:
        """Add partitions that the session also reads from now on. False: there would be too many, and none is added."""
        new = [place for place in dict.fromkeys(places) if place not in session.places]
        if new and sum(len(each.places) for each in self._sessions.values()) + len(new) > self._places_max:
            return False
        session.places.update(dict.fromkeys(new))
        return True

    def resume(
        self, group_id: str, member_id: str, epoch: int, is_connected: Callable[[], bool]
    ) -> ShareSession | ErrorCode:
        """Take the next request of a session. FINAL_EPOCH is always accepted. The caller then closes the session
        afterwards."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            return ErrorCode.share_session_not_found
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            return ErrorCode.invalid_share_session_epoch
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        session.is_connected = is_connected
        return session

    def get(self, group_id: str, member_id: str) -> ShareSession | None:
        return self._sessions.get((group_id, member_id))

    def close(self, session: ShareSession) -> None:
        if self._sessions.get((session.group_id, session.member_id)) is session:
            del self._sessions[session.group_id, session.member_id]

    def lost(self) -> list[ShareSession]:
        """The sessions whose connection is closed."""
        return [session for session in self._sessions.values() if not session.is_connected()]
