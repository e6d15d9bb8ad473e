"""Client quotas (KIP-13, KIP-124, KIP-219): how long a client must wait if it exceeds its rate.

Owns: rates by user and client id over a sliding window (quota.window.num samples of quota.window.size.seconds) and the
wait that brings a rate back to the limit, by Kafka's formula. A client is answered at once with `throttle_time_ms`, and
its connection is not read for that time, whatever the client does. Followers are never slowed down. The module is pure:
the caller passes the time. It is bounded: the least recently seen client is forgotten first. Shown by
tests/broker_node/test_node_quotas.py.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from broker.controller.image import QuotaEntity
from broker.controller.quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
)
from broker.node.net.rate_window import RateWindow

WIRE_INT_MAX = 2**31 - 1  # milliseconds to wait and bytes to fetch are int32 on the wire
CLIENTS_MAX = 10_000
NANOSECONDS_PER_PERCENT = 10_000_000  # one percent of one second of the event loop

Quotas: TypeAlias = Mapping[QuotaEntity, Mapping[str, float]]


class Limit(NamedTuple):
    per_second: float
    sharing: tuple[str, str]  # the (user, client id) that share the quota; '' stands for all


def limit_of(limits: Quotas, key: str, user: str, client_id: str) -> Limit | None:
    """The quota of the first entity that limits this key, in Kafka's order. A quota of a user holds for all clients of
    that user together. A quota of a client id holds for all its users together. None if no quota limits the key."""
    for whose in (user, None):
        for which in (client_id, None):
            values = limits.get(((CLIENT_ID, which), (USER, whose)))
            if values is not None and key in values:
                return Limit(values[key], (user, client_id))
        values = limits.get(((USER, whose),))
        if values is not None and key in values:
            return Limit(values[key], (user, ""))
    for which in (client_id, None):
        values = limits.get(((CLIENT_ID, which),))
        if values is not None and key in values:
            return Limit(values[key], ("", client_id))
    return None


class ClientQuotas:
    """`is_active` is False while no quota is set. Then nothing is measured."""

    def __init__(self, *, window_count: int, window_size_ms: int) -> None:
        self._count, self._size_ms = window_count, window_size_ms
        self._limits: Quotas = {}
        # The key is (quota key, user, client id).
        self._windows: OrderedDict[tuple[str, str, str], RateWindow] = OrderedDict()
        self.is_active = False

    def set_limits(self, limits: Quotas) -> None:
        self._limits = limits
        self.is_active = bool(limits)

    def limit(self, key: str, user: str, client_id: str) -> float | None:
        """The limit for this client. None if no quota limits it."""
        found = limit_of(self._limits, key, user, client_id)
        return None if found is None else found.per_second

    def produced(self, user: str, client_id: str, size_bytes: int, now_ms: int) -> int:
        """Counts the bytes. Returns the milliseconds to wait."""
        return self._record(PRODUCER_BYTE_RATE, user, client_id, size_bytes, now_ms)

    def fetched(self, user: str, client_id: str, size_bytes: int, now_ms: int) -> int:
        return self._record(CONSUMER_BYTE_RATE, user, client_id, size_bytes, now_ms)

    def fetched_in_window(self, user: str, client_id: str, now_ms: int) -> float:
        """The bytes that count now for the fetch quota of this client; 0 without a quota."""
        found = limit_of(self._limits, CONSUMER_BYTE_RATE, user, client_id)
        window = None if found is None else self._windows.get((CONSUMER_BYTE_RATE, *found.sharing))
        return 0.0 if window is None else window.total(now_ms)

    def handled(self, user: str, client_id: str, duration_ns: int, now_ms: int) -> int:
        """Counts the time for request_percentage: 100 is the whole time of this broker's one event loop. The wait is at
        most the time of one sample."""
        wait_ms = self._record(REQUEST_PERCENTAGE, user, client_id, duration_ns / NANOSECONDS_PER_PERCENT, now_ms)
        return min(wait_ms, self._size_ms)

    def connected(self, host: str, now_ms: int) -> int:
        """Counts a new connection from this address to one of the clients' listeners. Returns the milliseconds to
        wait."""
        for which in (host, None):
            limit = self._limits.get(((IP, which),), {}).get(CONNECTION_CREATION_RATE)
            if limit is not None:
                return self._wait_ms((CONNECTION_CREATION_RATE, host, ""), limit, 1, now_ms)
        return 0

    def fetch_bytes_max(self, user: str, client_id: str) -> int | None:
        """The maximum size of one answer, so that a client with a small quota still makes progress. None means no
        limit."""
        limit = self.limit(CONSUMER_BYTE_RATE, user, client_id)
        if limit is None:
            return None
        return max(1, int(min(limit * (self._count - 1) * self._size_ms / 1000, WIRE_INT_MAX)))

    def _record(self, key: str, user: str, client_id: str, amount: float, now_ms: int) -> int:
        found = limit_of(self._limits, key, user, client_id)
        if found is None:
            return 0
        return self._wait_ms((key, *found.sharing), found.per_second, amount, now_ms)

    def _wait_ms(self, name: tuple[str, str, str], limit: float, amount: float, now_ms: int) -> int:
        window = self._windows.get(name)
        if window is None:
            window = self._windows[name] = RateWindow(count=self._count, size_ms=self._size_ms)
            if len(self._windows) > CLIENTS_MAX:
                self._windows.popitem(last=False)
        self._windows.move_to_end(name)
        window.add(amount, now_ms)
        rate = window.per_second(now_ms)
        if rate <= limit:
            return 0
        # A limit may be extremely small. The excess can then be infinite.
        return round(min((rate - limit) / limit * self._count * self._size_ms, WIRE_INT_MAX))
