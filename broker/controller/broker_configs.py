"""Which broker settings may change while brokers run (KIP-226), and what counts as a valid value.

These are the dynamic settings of Kafka that this broker acts on. Other settings of a broker are refused by name,
because it would be misleading to accept them. A name that is no setting at all is kept without effect, as in Kafka,
because a plug-in might read it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from broker.controller.config_checks import (
    INT32_MAX,
    INT64_MAX,
    AnyList,
    Boolean,
    Check,
    IntegerRange,
    wrong,
)
from broker.controller.topic_configs import TOPIC_SETTINGS, Effect

UNKNOWN_MAX = 100  # settings that are kept unused, of one broker or of all; Kafka has no limit
UNKNOWN_CHARACTERS_MAX = 10_000
_TOO_LONG = f"A setting that is not known may have {UNKNOWN_CHARACTERS_MAX} characters"
# Log directories that get no new replicas (KIP-1066). The broker itself checks that it has them.
CORDONED = "cordoned.log.dirs"
# Other settings of a broker bound these. The broker that gets a request checks it.
GROUP_TIMES = frozenset(f"group.{kind}.assignment.interval.ms" for kind in ("consumer", "share"))
_COUNT = IntegerRange(low=0, high=INT32_MAX)
_LONG = IntegerRange(low=0, high=INT64_MAX)

DYNAMIC_BROKER_CONFIGS: Mapping[str, Check] = {
    **{
        setting.broker_key: setting.check
        for setting in TOPIC_SETTINGS.values()
        if setting.broker_key is not None and setting.effect is Effect.HONOURED
    },
    CORDONED: AnyList(),
    **dict.fromkeys(sorted(GROUP_TIMES), _COUNT),
    "log.cleaner.backoff.ms": _LONG,
    "log.cleaner.dedupe.buffer.size": IntegerRange(low=1 << 20, high=INT64_MAX),
    "log.cleaner.io.max.bytes.per.second": IntegerRange(low=1, high=INT64_MAX),
    "max.connection.creation.rate": _COUNT,
    "max.connections": _COUNT,
    "max.connections.per.ip": _COUNT,
    "producer.id.expiration.ms": IntegerRange(low=1, high=INT32_MAX),
    "replica.alter.log.dirs.io.max.bytes.per.second": _LONG,
    "transaction.partition.verification.enable": Boolean(),
}
# Lists, which APPEND and SUBTRACT change, with Kafka's defaults, from which they begin.
LIST_BROKER_CONFIGS: Mapping[str, str] = {
    CORDONED: "",
    "log.cleanup.policy": "delete",
}


# These settings of a listener may change at run time: its certificate, its authorities, its users, its TLS versions and
# cipher suites. Their full names begin with `listener.name.NAME.`.
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
    """The listener (in lower case) that has this setting. None if the setting may not change at run time."""
    found = _LISTENER.fullmatch(name)
    return found.group(1) if found is not None and found.group(2) in DYNAMIC_LISTENER_CONFIGS else None


def is_unknown(name: str, known: Collection[str]) -> bool:
    return name not in known and not name.startswith("listener.name.")


def cluster_level_problem(values: Mapping[str, str | None]) -> str | None:
    """Why these settings cannot be set for all brokers at once; None if they can."""
    given = [key for key, value in values.items() if value is not None]
    own = [key for key in given if key == CORDONED or listener_of(key)]
    if not own:
        return None
    return f"Cannot update these configs at default cluster level, broker id must be specified: [{', '.join(own)}]"


def broker_config_problem(name: str, value: str, known: Collection[str]) -> str | None:
    """Why this override is refused, for the error message; None if it is fine. `known`: all settings of brokers."""
    if listener_of(name) is not None:
        return None  # the broker that got the request has checked it, because only it has the files (node/handlers)
    if name not in DYNAMIC_BROKER_CONFIGS:
        if is_unknown(name, known):
            return None if len(value) <= UNKNOWN_CHARACTERS_MAX else wrong(name, "(long)", _TOO_LONG)
        return f"Cannot update these configs dynamically: [{name}]"
    return DYNAMIC_BROKER_CONFIGS[name].problem(name, value)
