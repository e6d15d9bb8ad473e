"""When the active controller last heard from each broker, and how far each has read the metadata log.

This is the only state of the controller that is not in the log. A new active controller starts with new sessions, so
every broker gets one full session timeout.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class _Session:
    last_contact_ms: int
    metadata_offset: int = -1


class BrokerSessions:
    def __init__(self, *, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._sessions: dict[int, _Session] = {}
        # Where the log ended when a broker began its controlled shutdown. The others must have read up to this offset.
        self._shutdown_offsets: dict[int, int] = {}

    def restart(self, broker_ids: Iterable[int], now_ms: int) -> None:
        self._sessions = {broker_id: _Session(last_contact_ms=now_ms) for broker_id in broker_ids}
        self._shutdown_offsets = {}

    def touch(self, broker_id: int, now_ms: int, metadata_offset: int = -1) -> None:
        session = self._sessions.setdefault(broker_id, _Session(last_contact_ms=now_ms))
        session.last_contact_ms = now_ms
        session.metadata_offset = max(session.metadata_offset, metadata_offset)

    def begin(self, broker_id: int, now_ms: int) -> None:
        """A new incarnation registered. It is not known yet how far it has read."""
        self._sessions[broker_id] = _Session(last_contact_ms=now_ms)
        self._shutdown_offsets.pop(broker_id, None)

    def end(self, broker_id: int) -> None:
        self._sessions.pop(broker_id, None)
        self._shutdown_offsets.pop(broker_id, None)

    def is_valid(self, broker_id: int, now_ms: int) -> bool:
        session = self._sessions.get(broker_id)
        return session is not None and now_ms < session.last_contact_ms + self._timeout_ms

    def expires_at_ms(self, broker_id: int) -> int | None:
        session = self._sessions.get(broker_id)
        return None if session is None else session.last_contact_ms + self._timeout_ms

    def begin_shutdown(self, broker_id: int, end_offset: int) -> None:
        self._shutdown_offsets[broker_id] = end_offset

    def others_saw_shutdown(self, broker_id: int, live: Iterable[int]) -> bool:
        """Whether every other live broker has read the changes that moved the leaders away. True if no such changes
        were recorded here."""
        offset = self._shutdown_offsets.get(broker_id, -1)
        others = [self._sessions[other] for other in live if other != broker_id and other in self._sessions]
        return all(session.metadata_offset >= offset for session in others)
