"""`controller_mutation_rate` (KIP-599): how many partitions a client may create and delete in a second.

Owns: a token bucket for each user and client id, on the active controller. A bucket holds the partitions that are
allowed in `controller.quota.window.num` windows of `controller.quota.window.size.seconds`, and is full at first. While
it is below zero, requests are refused. So one large request is accepted as a whole, and the next one has to wait.
Clients of old versions do not know this error: they are served, and only told to wait. The module is pure: the caller
passes the time. It is bounded: the least recently seen client is forgotten first. Shown by
tests/broker_node/test_node_change_quotas.py.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from broker.controller.quotas import CONTROLLER_MUTATION_RATE
from broker.node.net.quotas import CLIENTS_MAX, WIRE_INT_MAX, Quotas, limit_of


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_ms: int

    def fill(self, per_second: float, size: float, now_ms: int) -> None:
        added = per_second * max(0, now_ms - self.filled_ms) / 1000
        self.tokens, self.filled_ms = min(size, self.tokens + added), now_ms


class ChangeCharge:
    """The cost of one request for its client. It is called with the number of partitions of each topic that the request
    changes; see `broker.controller.topic_types.Charge`. `wait_ms` is how long the client must wait after the answer."""

    def __init__(self, bucket: _Bucket | None, per_second: float, *, is_strict: bool) -> None:
        """`bucket` is None if no quota limits the client."""
        self._bucket, self._per_second, self._is_strict = bucket, per_second, is_strict
        self.wait_ms = 0

    def __call__(self, partitions: int) -> bool:
        bucket = self._bucket
        if bucket is None:
            return True
        if self._is_strict and bucket.tokens < 0:
            self._wait(bucket)
            return False
        bucket.tokens -= partitions
        if not self._is_strict and bucket.tokens < 0:
            self._wait(bucket)
        return True

    def _wait(self, bucket: _Bucket) -> None:
        self.wait_ms = round(min(-bucket.tokens / self._per_second * 1000, WIRE_INT_MAX))


class ChangeQuotas:
    """`is_active` is False while no such quota is set: then brokers need not tell the controller the client's
    principal."""

    def __init__(self, *, window_count: int, window_size_ms: int) -> None:
        self._window_s = window_count * window_size_ms / 1000
        self._limits: Quotas = {}
        # The key is the (user, client id) that share a bucket.
        self._buckets: OrderedDict[tuple[str, str], _Bucket] = OrderedDict()
        self.is_active = False

    def set_limits(self, limits: Quotas) -> None:
        self._limits = limits
        self.is_active = any(CONTROLLER_MUTATION_RATE in values for values in limits.values())

    def charge_of(self, user: str, client_id: str, *, is_strict: bool, now_ms: int) -> ChangeCharge:
        """The charge for a request that is handled now. `is_strict` says that its version knows
        THROTTLING_QUOTA_EXCEEDED."""
        limit = limit_of(self._limits, CONTROLLER_MUTATION_RATE, user, client_id)
        if limit is None:
            return ChangeCharge(None, 0.0, is_strict=is_strict)
        size = limit.per_second * self._window_s
        bucket = self._buckets.get(limit.sharing)
        if bucket is None:
            bucket = self._buckets[limit.sharing] = _Bucket(size, now_ms)
            if len(self._buckets) > CLIENTS_MAX:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(limit.sharing)
        bucket.fill(limit.per_second, size, now_ms)
        return ChangeCharge(bucket, limit.per_second, is_strict=is_strict)
