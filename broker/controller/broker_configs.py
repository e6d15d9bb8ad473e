"""Which broker settings may change while brokers run (KIP-226), and what counts as a valid value.

These are the dynamic settings of Kafka that this broker acts on. The others are refused by name. Accepting them would
be misleading.
"""

from __future__ import annotations

import re
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
    "follower.replication.throttled.rate": _LONG,
    "leader.replication.throttled.rate": _LONG,
    "log.cleaner.backoff.ms": _LONG,
    "log.cleaner.dedupe.buffer.size": IntegerRange(low=1 << 20, high=INT64_MAX),
    "log.cleaner.io.max.bytes.per.second": IntegerRange(low=1, high=INT64_MAX),
    "max.connection.creation.rate": _COUNT,
    "max.connections": _COUNT,
    "max.connections.per.ip": _COUNT,
}


# What a listener may get at run time, after `listener.name.NAME.`: a new certificate, new authorities, new users,
# other versions and suites.
DYNAMIC_LISTENER_CONFIGS = frozenset(
    {
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.principal.mapping.rules",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.type",
        "plain.sasl.jaas.config",
        "oauthbearer.sasl.jaas.config",
        "scram-sha-256.sasl.jaas.config",
        "scram-sha-512.sasl.jaas.config",
    }
)
_LISTENER = re.compile(r"listener\.name\.([a-z0-9_-]+)\.(.+)")


def listener_of(name: str) -> str | None:
    """The listener (in lower case) that this setting is of, if it may change at run time."""
    found = _LISTENER.fullmatch(name)
    return found.group(1) if found is not None and found.group(2) in DYNAMIC_LISTENER_CONFIGS else None


def broker_config_problem(name: str, value: str) -> str | None:
    """Why this override is refused, for the error message; None if it is fine."""
    if listener_of(name) is not None:
        return None  # the broker that is asked has looked at it: it alone has the files (node/handlers)
    if name not in DYNAMIC_BROKER_CONFIGS:
        return f"Cannot update these configs dynamically: [{name}]"
    problem = DYNAMIC_BROKER_CONFIGS[name].problem(value)
    return None if problem is None else f"Invalid value for broker config {name}: {problem}"
