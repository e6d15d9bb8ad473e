"""A memory budget for answers that peers do not read, over all connections. If it is used up, connections are closed.

Each connection has its own limit (connection.py). But two thousand connections with an answer of 55 MB each need a
common limit. Only connections whose transport is full count; any other connection holds at most 64 KiB. Kafka sends
from the file and holds nothing. The connection whose peer has read nothing for the longest time is closed first. So
clients that still read stay connected, even if they read slowly.
Shown by tests/broker_node/test_node_unread_answers.py and, with a real process,
tests/broker_node/test_node_peer_limits.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from broker.node.process.clock import monotonic_ms


class Answering(Protocol):
    """The part of a connection that concerns its answers."""

    @property
    def unsent_bytes(self) -> int: ...

    def abort(self) -> None: ...


@dataclass(slots=True)
class _Held:
    size_bytes: int
    read_ms: int  # when it was last seen that the peer had read something


class UnreadAnswers:
    """Invariant: after each call at most `limit_bytes` are held. `on_end` is called for each connection that is
    closed."""

    def __init__(self, *, limit_bytes: int, on_end: Callable[[Answering, int], None]) -> None:
        self._limit_bytes, self._on_end = limit_bytes, on_end
        self._held: dict[Answering, _Held] = {}
        self.total_bytes = 0

    def note(self, connection: Answering) -> None:
        """The connection's transport is full, or has got more data while it was full."""
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
        """The peer has read the answers, or the connection is gone."""
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
