"""Answers that peers do not read, over all connections: a budget, and who is ended when it is used up.

One connection has a bound of its own (connection.py). Two thousand connections with an answer of 55 MB each need a
common one. Only connections whose transport is full count: each other one holds 64 KiB. Kafka sends from the file and
holds nothing. The peer that has read nothing for the longest time is ended first, so that clients which read on,
however slowly, stay.
Shown by tests/broker_node/test_node_unread.py and, with a real process, tests/broker_node/test_node_peer_limits.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from broker.node.process.clock import monotonic_ms


class Answering(Protocol):
    """A connection, as far as its answers go."""

    @property
    def unsent_bytes(self) -> int: ...

    def abort(self) -> None: ...


@dataclass(slots=True)
class _Held:
    size_bytes: int
    read_ms: int  # when its peer was last seen to have read something


class UnreadAnswers:
    """Invariant: after each call at most `limit_bytes` are held. `on_end` hears of each connection that was ended."""

    def __init__(self, *, limit_bytes: int, on_end: Callable[[Answering, int], None]) -> None:
        self._limit_bytes, self._on_end = limit_bytes, on_end
        self._held: dict[Answering, _Held] = {}
        self.total_bytes = 0

    def note(self, connection: Answering) -> None:
        """Its transport is full, or has got more while it was."""
        size_bytes, held = connection.unsent_bytes, self._held.get(connection)
        if held is None:
            self._held[connection] = _Held(size_bytes, monotonic_ms())
            self.total_bytes += size_bytes
        else:
            self.total_bytes += size_bytes - held.size_bytes
            held.size_bytes = size_bytes
        if self.total_bytes > self._limit_bytes:
            self._make_room()

    def forget(self, connection: Answering) -> None:
        """It has been read, or is gone."""
        held = self._held.pop(connection, None)
        if held is not None:
            self.total_bytes -= held.size_bytes

    def _make_room(self) -> None:
        now_ms = monotonic_ms()
        for connection, held in self._held.items():
            size_bytes = connection.unsent_bytes
            if size_bytes < held.size_bytes:
                held.read_ms = now_ms
            self.total_bytes += size_bytes - held.size_bytes
            held.size_bytes = size_bytes
        if self.total_bytes <= self._limit_bytes:
            return
        for connection, held in sorted(self._held.items(), key=lambda each: (each[1].read_ms, -each[1].size_bytes)):
            self.forget(connection)
            self._on_end(connection, held.size_bytes)
            connection.abort()
            if self.total_bytes <= self._limit_bytes:
                return
