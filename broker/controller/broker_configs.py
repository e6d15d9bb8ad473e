"""Which broker settings may change while brokers run (KIP-226), and what counts as a valid value.

These are the dynamic settings of Kafka that this broker acts on. The others are refused by name. Accepting them would
be misleading.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.controller.topic_configs import INT64_MAX, TOPIC_SETTINGS, Check, Effect, IntegerRange

_COUNT = IntegerRange(low=0, high=2**31 - 1)
_LONG = IntegerRange(low=0, high=INT64_MAX)

DYNAMIC_BROKER_CONFIGS: Mapping[str, Check] = {
    **{
        setting.broker_key: setting.check
        for setting in TOPIC_SETTINGS.values()
        if setting.broker_key is not None and setting.effect is Effect.HONOURED
    },
    "log.cleaner.backoff.ms": _LONG,
    "log.cleaner.dedupe.buffer.size": IntegerRange(low=1 << 20, high=INT64_MAX),
    "log.cleaner.io.max.bytes.per.second": IntegerRange(low=1, high=INT64_MAX),
    "max.connection.creation.rate": _COUNT,
    "max.connections": _COUNT,
    "max.connections.per.ip": _COUNT,
}


def broker_config_problem(name: str, value: str | None) -> str | None:
    """Why this override is refused, for the error message; None if it is fine. A value of None removes it."""
    if name not in DYNAMIC_BROKER_CONFIGS:
        return f"Cannot update these configs dynamically: {name}"
    if value is None:
        return None
    problem = DYNAMIC_BROKER_CONFIGS[name].problem(value)
    return None if problem is None else f"Invalid value for broker config {name}: {problem}"
