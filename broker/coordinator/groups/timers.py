"""When each group of a shard must be looked at next. Pure.

A group's deadline moves with every heartbeat, mostly to a later time. So an entry may be earlier than the real
deadline, but never later, and who is woken too early plans again. Shown by the models of tests/broker_coordinator.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator


class GroupTimers:
    """Times are those of the shard's clock, in milliseconds."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, str]] = []  # heap of (deadline, group id)
        self._earliest: dict[str, int] = {}  # the earliest entry of each group

    def plan(self, group_id: str, deadline_ms: int | None) -> None:
        """The group must be looked at by then. None: no deadline of its own."""
        known_ms = self._earliest.get(group_id)
        if deadline_ms is not None and (known_ms is None or deadline_ms < known_ms):
            self._earliest[group_id] = deadline_ms
            heapq.heappush(self._entries, (deadline_ms, group_id))

    def next_ms(self) -> int | None:
        return self._entries[0][0] if self._entries else None

    def due(self, now_ms: int) -> Iterator[str]:
        """Takes out the groups whose time has come. A group that is planned meanwhile for a time that has come too is
        among them."""
        while self._entries and self._entries[0][0] <= now_ms:
            deadline_ms, group_id = heapq.heappop(self._entries)
            if self._earliest.get(group_id) == deadline_ms:  # otherwise another entry of this group has replaced it
                del self._earliest[group_id]
                yield group_id

    def check(self, group_id: str, deadline_ms: int | None) -> None:
        assert deadline_ms is None or self._earliest[group_id] <= deadline_ms, "a deadline would be missed"
