"""The rules of clients' metrics (KIP-714), without I/O: which metrics a client must send, and which push is accepted.

The rules are those of Apache Kafka (ClientMetricsManager). A client asks for its subscription, at most once in a push
interval, and pushes as often. The subscription has an id. A push with another id is refused, so the client asks again.
A client is forgotten when the connection closes that it first came with, and when it is silent for three intervals, or
for a minute if that is longer. Of all others the ones that came last are remembered. A client that was forgotten is
known again when it asks.
Shown by tests/broker_node/test_node_telemetry.py.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

import re2

from broker.controller.client_metrics_configs import (
    ALL_METRICS,
    DEFAULT_INTERVAL_MS,
    INTERVAL,
    MATCH,
    METRICS,
    items,
    parsed,
)
from broker.wire.compression import CodecId
from broker.wire.errors import ErrorCode

INSTANCES_MAX = 16_384  # as in Kafka; above it the client that was silent for the longest time is forgotten
SILENT_MS_MIN, SILENT_INTERVALS = 60_000, 3  # how long a client that says nothing is remembered, as in Kafka
COMPRESSIONS = (CodecId.ZSTD, CodecId.LZ4, CodecId.GZIP, CodecId.SNAPPY)  # in Kafka's order of preference
_ASKS_AGAIN = frozenset({ErrorCode.unknown_subscription_id, ErrorCode.unsupported_compression_type})


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    interval_ms: int
    metrics: tuple[str, ...]
    patterns: tuple[tuple[str, re2.Pattern], ...]  # (attribute of a client, pattern); all must match

    def is_for(self, client: Mapping[str, str]) -> bool:
        return all(pattern.fullmatch(client.get(attribute, "")) for attribute, pattern in self.patterns)


def subscriptions_of(configs: Mapping[str, Mapping[str, str]]) -> tuple[Subscription, ...]:
    """`configs` were checked by the controller. As in Kafka, if an attribute has two patterns, the last one is used."""
    found = []
    for _, values in sorted(configs.items()):
        patterns = dict(pair for item in items(values.get(MATCH, "")) if (pair := parsed(item)) is not None)
        found.append(
            Subscription(
                interval_ms=int(values.get(INTERVAL, DEFAULT_INTERVAL_MS)),
                metrics=tuple(items(values.get(METRICS, ""))),
                patterns=tuple(patterns.items()),
            )
        )
    return tuple(found)


@dataclass(slots=True)
class Instance:
    """The subscription of one client, and the times of its last requests."""

    subscription_id: int
    interval_ms: int
    metrics: tuple[str, ...]
    version: int  # version of the subscriptions that it was told
    is_connected: Callable[[], bool]  # whether the connection is open that it came with
    seen_ms: int  # its last request, whatever the answer was
    asked_ms: int | None = None
    pushed_ms: int | None = None
    last_error: ErrorCode = ErrorCode.none
    is_terminating: bool = False

    def is_gone(self, now_ms: int) -> bool:
        silent_ms = max(SILENT_MS_MIN, SILENT_INTERVALS * self.interval_ms)
        return not self.is_connected() or now_ms - self.seen_ms > silent_ms


class Instances:
    def __init__(self) -> None:
        self._subscriptions: tuple[Subscription, ...] = ()
        self._version = 0
        self._instances: OrderedDict[UUID, Instance] = OrderedDict()

    def set_subscriptions(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        self._subscriptions = subscriptions_of(configs)
        self._version += 1

    def asked(
        self, instance_id: UUID, client: Mapping[str, str], now_ms: int, is_connected: Callable[[], bool]
    ) -> tuple[ErrorCode, Instance]:
        """Handles GetTelemetrySubscriptions. `client` has the client's attributes, under the names that patterns
        use."""
        instance = self._instance(instance_id, client, now_ms, is_connected)
        last_ms = max((each for each in (instance.asked_ms, instance.pushed_ms) if each is not None), default=None)
        is_early = last_ms is not None and now_ms - last_ms < instance.interval_ms
        if is_early and instance.last_error not in _ASKS_AGAIN:
            return ErrorCode.throttling_quota_exceeded, instance
        if not is_early:
            instance.asked_ms = now_ms
        instance.last_error = ErrorCode.none
        return ErrorCode.none, instance

    def pushed(
        self,
        instance_id: UUID,
        client: Mapping[str, str],
        now_ms: int,
        is_connected: Callable[[], bool],
        *,
        subscription_id: int,
        is_terminating: bool,
        compression: int,
        is_too_large: bool,
    ) -> ErrorCode:
        """Whether a push is accepted. Its data is checked afterwards: then `taken` or `refused` is called."""
        instance = self._instance(instance_id, client, now_ms, is_connected)
        error = self._problem(instance, now_ms, subscription_id, is_terminating, compression, is_too_large)
        instance.is_terminating = is_terminating  # as in Apache Kafka, whether it is accepted or not
        if error is not ErrorCode.none:
            instance.last_error = error
        return error

    def taken(self, instance_id: UUID) -> None:
        instance = self._instances.get(instance_id)
        if instance is not None:
            instance.last_error = ErrorCode.none

    def refused(self, instance_id: UUID, error: ErrorCode) -> None:
        instance = self._instances.get(instance_id)
        if instance is not None:
            instance.last_error = error

    def __len__(self) -> int:
        return len(self._instances)

    def _problem(
        self,
        instance: Instance,
        now_ms: int,
        subscription_id: int,
        is_terminating: bool,
        compression: int,
        is_too_large: bool,
    ) -> ErrorCode:
        if instance.is_terminating:
            return ErrorCode.invalid_request  # the client has said that its last push was the final one
        if not self._may_push(instance, now_ms) and not is_terminating:
            return ErrorCode.throttling_quota_exceeded
        if subscription_id != instance.subscription_id:
            return ErrorCode.unknown_subscription_id
        if compression not in (CodecId.NONE, *COMPRESSIONS):
            return ErrorCode.unsupported_compression_type
        return ErrorCode.telemetry_too_large if is_too_large else ErrorCode.none

    def _may_push(self, instance: Instance, now_ms: int) -> bool:
        """Whether the client may push now. The first push after GetTelemetrySubscriptions may come at any time, because
        clients wait for half an interval to one and a half."""
        asked_ms, pushed_ms = instance.asked_ms, instance.pushed_ms
        is_first = asked_ms is not None and (pushed_ms is None or asked_ms > pushed_ms)
        if not is_first and pushed_ms is not None and now_ms - pushed_ms < instance.interval_ms:
            return False
        instance.pushed_ms = now_ms
        return True

    def _instance(
        self, instance_id: UUID, client: Mapping[str, str], now_ms: int, is_connected: Callable[[], bool]
    ) -> Instance:
        found = self._instances.get(instance_id)
        if found is None or found.version < self._version or found.is_gone(now_ms):
            found = self._instances[instance_id] = self._new(instance_id, client, now_ms, is_connected)
        found.seen_ms = now_ms
        self._instances.move_to_end(instance_id)
        oldest = next(iter(self._instances.values()))
        if len(self._instances) > INSTANCES_MAX or oldest.is_gone(now_ms):
            self._instances.popitem(last=False)
        return found

    def _new(
        self, instance_id: UUID, client: Mapping[str, str], now_ms: int, is_connected: Callable[[], bool]
    ) -> Instance:
        wanted = [each for each in self._subscriptions if each.is_for(client)]
        metrics = tuple(sorted({name for each in wanted for name in each.metrics}))
        if ALL_METRICS in metrics:
            metrics = (ALL_METRICS,)
        # As in Apache Kafka the default counts too: a subscription makes a client push more often, never less often.
        interval_ms = min([DEFAULT_INTERVAL_MS, *(each.interval_ms for each in wanted)])
        seed = f"{','.join(metrics)} {interval_ms} {instance_id}".encode()
        subscription_id = zlib.crc32(seed)
        if subscription_id >= 1 << 31:
            subscription_id -= 1 << 32  # the protocol has an int32
        return Instance(
            subscription_id=subscription_id,
            interval_ms=interval_ms,
            metrics=metrics,
            version=self._version,
            is_connected=is_connected,
            seen_ms=now_ms,
        )
