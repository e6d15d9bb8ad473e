"""Every producer and consumer setting of Kafka 4.3, and what this client does with it: honoured, accepted without
effect, or refused.

A setting is honoured if it is a field of `ProducerConfig` or `ConsumerConfig`. For all others this file says why they
do nothing. Those that would change what a user relies on (e.g. plug-ins) are refused, unless their value asks for
nothing. Nothing is ignored silently: `screen` warns of the accepted ones and fails for the refused ones.
docs/reference/settings.md is written from this file. Names, types and defaults in client_settings.tsv come from Kafka's
jars (settings_page --jars). Shown by tests/broker_settings/test_settings_clients.py.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from broker.client.core.config import ConsumerConfig, ProducerConfig, names_of
from broker.client.core.errors import ConfigurationError
from broker.client.core.security_config import TOKEN_HANDLER
from broker.client.core.shares.config import REFUSED as SHARE_REFUSED
from broker.client.core.shares.config import SHARE_NAMES
from broker.kafka_settings import KafkaSetting, read_settings

_LOG = logging.getLogger(__name__)
NAMES_FILE = Path(__file__).with_name("client_settings.tsv")
SCOPES: Mapping[str, type[ProducerConfig] | type[ConsumerConfig]] = {
    "producer": ProducerConfig,
    "consumer": ConsumerConfig,
}
HONOURED, WITHOUT, REFUSED_ = "honoured", "accepted without effect", "refused"


_NO_TELEMETRY = "nothing is sampled: the averages of a producer are over its whole life"
_NO_SHARE = "a setting of share consumers (ShareConsumer)"
_NO_PLUGINS = "Java classes cannot be loaded"
_NO_KERBEROS = "GSSAPI is not spoken"
_NO_ASSERTION = "a client signs no assertion itself; a Python function can give the token"
_PEM = "a PEM file has none, and Java's formats are not read"
_OF_JAVA = "TLS is OpenSSL's, and not Java's"
_OF_SERVERS = "clients do not check tokens"
_FIXED_LOGIN = "a token is taken anew after four fifths of its time, when a connection must prove itself"
_BOOTSTRAP = "the bootstrap servers are always among those that are asked"

WITHOUT_EFFECT: Mapping[str, str] = {
    "client.dns.lookup": "the first address of a name is used",
    "connections.max.idle.ms": "connections stay open until a broker closes them",
    "enable.metrics.push": "metrics are not pushed to brokers",
    "exclude.internal.topics": "the consumer subscribes to topics by name",
    "metadata.recovery.rebootstrap.trigger.ms": _BOOTSTRAP,
    "metadata.recovery.strategy": _BOOTSTRAP,
    "metric.reporters": _NO_TELEMETRY,
    "metrics.num.samples": _NO_TELEMETRY,
    "metrics.recording.level": _NO_TELEMETRY,
    "metrics.sample.window.ms": _NO_TELEMETRY,
    "partitioner.adaptive.partitioning.enable": "the partitioner does not look at how long the queues of brokers are",
    "partitioner.availability.timeout.ms": "the partitioner leaves out partitions without a leader, and no others",
    "sasl.login.refresh.buffer.seconds": _FIXED_LOGIN,
    "sasl.login.refresh.min.period.seconds": _FIXED_LOGIN,
    "sasl.login.refresh.window.factor": _FIXED_LOGIN,
    "sasl.login.refresh.window.jitter": _FIXED_LOGIN,
    "sasl.login.retry.backoff.max.ms": "a connection asks for its token once; the next connection asks again",
    "sasl.login.retry.backoff.ms": "a connection asks for its token once; the next connection asks again",
    "sasl.oauthbearer.clock.skew.seconds": _OF_SERVERS,
    "sasl.oauthbearer.expected.audience": _OF_SERVERS,
    "sasl.oauthbearer.expected.issuer": _OF_SERVERS,
    "sasl.oauthbearer.scope.claim.name": _OF_SERVERS,
    "sasl.oauthbearer.sub.claim.name": _OF_SERVERS,
    "share.acknowledgement.mode": _NO_SHARE,
    "share.acquire.mode": _NO_SHARE,
    "socket.connection.setup.timeout.max.ms": "the time for a connection does not grow with failures",
    "ssl.protocol": "the newest of ssl.enabled.protocols that both sides have is spoken",
}
REFUSED: Mapping[str, str] = {
    "config.providers": "values are taken as they are written",
    "interceptor.classes": _NO_PLUGINS,
    "key.deserializer": f"{_NO_PLUGINS}; records come as bytes",
    "key.serializer": f"{_NO_PLUGINS}; records go as bytes",
    "sasl.client.callback.handler.class": _NO_PLUGINS,
    "sasl.login.class": _NO_PLUGINS,
    "sasl.oauthbearer.header.urlencode": "id and secret go to the token endpoint as they are",
    "sasl.oauthbearer.jwt.retriever.class": _NO_PLUGINS,
    "sasl.oauthbearer.jwt.validator.class": _NO_PLUGINS,
    "security.providers": _OF_JAVA,
    "ssl.cipher.suites": f"{_OF_JAVA}: it chooses the suites, which have other names there",
    "ssl.keystore.password": _PEM,
    "ssl.truststore.password": _PEM,
    "transaction.two.phase.commit.enable": "two-phase commit by the client (KIP-939) is not served",
    "value.deserializer": f"{_NO_PLUGINS}; records come as bytes",
    "value.serializer": f"{_NO_PLUGINS}; records go as bytes",
}
_REFUSED_FAMILIES = {
    "sasl.kerberos.": _NO_KERBEROS,
    "sasl.oauthbearer.assertion.": _NO_ASSERTION,
    "sasl.oauthbearer.jwks.": _OF_SERVERS,
    "ssl.": _OF_JAVA,
}
_SECURITY_NOTES = {
    TOKEN_HANDLER: "a Python function that returns a token, in the place of Java's class",
    "sasl.login.connect.timeout.ms": "with sasl.login.read.timeout.ms the time for the token endpoint; 0: 10 s",
    "sasl.login.read.timeout.ms": "see sasl.login.connect.timeout.ms",
    "sasl.mechanism": "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https, http or file",
    "ssl.keystore.type": "PEM alone, if there is a store",
    "ssl.truststore.type": "PEM alone, if there is a store",
}
NOTES: Mapping[str, Mapping[str, str]] = {
    "producer": {
        "bootstrap.servers": "",
        "partitioner.class": "round_robin, or the name of Kafka's RoundRobinPartitioner",
        **_SECURITY_NOTES,
    },
    "consumer": {
        "client.rack": "told to the group, and to leaders, which may name a follower in this rack to read from",
        "enable.auto.commit": "only with a group.id; refused if it is asked for without",
        "group.remote.assignor": "with group.protocol=consumer alone",
        "heartbeat.interval.ms": "with group.protocol=classic alone",
        "partition.assignment.strategy": "with group.protocol=classic alone; by name or by Java's class",
        **_SECURITY_NOTES,
        "session.timeout.ms": "with group.protocol=classic alone",
    },
}


@cache
def kafka_client_settings(scope: str) -> Mapping[str, KafkaSetting]:
    """All settings of Kafka's `producer` or `consumer`, by name."""
    return read_settings(NAMES_FILE, scope)


@cache
def honoured(scope: str) -> frozenset[str]:
    return names_of(SCOPES[scope]) | {TOKEN_HANDLER}


def support_of(scope: str, name: str) -> tuple[str, str] | None:
    """(honoured | accepted without effect | refused, note); None if Kafka has no such setting."""
    if name in honoured(scope):
        return HONOURED, NOTES[scope].get(name, "")
    if name not in kafka_client_settings(scope):
        return None
    if name in WITHOUT_EFFECT:
        return WITHOUT, WITHOUT_EFFECT[name]
    if name in REFUSED:
        return REFUSED_, REFUSED[name]
    for prefix, note in _REFUSED_FAMILIES.items():
        if name.startswith(prefix):
            return REFUSED_, note
    return None


def screen(scope: str, properties: Mapping[str, object]) -> dict[str, object]:
    """Returns the honoured settings and the unknown ones. For an unknown setting, the parser then suggests the nearest
    name. Raises ConfigurationError for a refused setting whose value is not Kafka's default."""
    left: dict[str, object] = {}
    for name, value in properties.items():
        support = support_of(scope, name)
        if support is None or support[0] == HONOURED:
            left[name] = value
        elif support[0] == WITHOUT:
            _LOG.warning("event=setting_without_effect name=%s why=%r", name, support[1])
        elif not _asks_for_nothing(value, kafka_client_settings(scope)[name].default):
            raise ConfigurationError(f"{name}: {support[1]}")
    return left


def screen_share(properties: Mapping[str, object]) -> dict[str, object]:
    """As `screen`, for a share consumer. Its settings are among those of consumers. What Java's share consumer refuses
    is left to the parser, which refuses it too."""
    own = {name: value for name, value in properties.items() if name in SHARE_NAMES | SHARE_REFUSED.keys()}
    others = {name: value for name, value in properties.items() if name not in own}
    return own | screen("consumer", others)


def _asks_for_nothing(value: object, default: str) -> bool:
    text = "" if value is None else str(value).strip()
    return text in ("", "null", default) or text.lower() == default.lower()
