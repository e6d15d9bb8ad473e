"""Every broker setting of Kafka 4.3 and what this broker does with it: honoured, accepted without effect, or refused.

A setting is honoured if it is in a section of `NodeConfig` and has an effect, or is a name for it in a coarser unit.
For all others this file says why they have no effect. A setting is refused if a user would rely on its effect
(security, tiered storage, plug-ins), unless its value asks for nothing. No setting is ignored silently: load_config
warns of settings without effect and fails for refused ones.
`python -m broker.node.settings_page` writes the table docs/reference/settings.md; tests/broker_settings compares it
with the code and the names in kafka_settings.tsv with Apache Kafka's jars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.controller.topic_configs import NO_THROTTLES, Effect
from broker.kafka_settings import kafka_settings
from broker.node.settings.config import COARSER_KEYS, SETTINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    effect: Effect
    note: str = ""


_ONE_LOOP = "one event loop does all the work"
_NO_METRICS = "there are no JMX metrics; the journal tells what happened"
_ONE_FILE = "the metadata log is one file"
_NO_PURGATORY = "what waits is forgotten as soon as it is answered"
_OPENSSL = "TLS is OpenSSL's, with its own choices"
_NO_CHANGE_QUOTAS = "there is no controller_mutation_rate (KIP-599)"
_NO_TIERS = "there is no tiered storage"
_NO_PLUGINS = "Java classes cannot be loaded"
_OWN_PACE = "the quorum has its own pace"

WITHOUT_EFFECT: Mapping[str, str] = {
    # Settings in sections that are read and described but have no effect.
    "log.local.retention.bytes": _NO_TIERS,
    "log.local.retention.ms": _NO_TIERS,
    "log.preallocate": "files grow as they are written",
    "log.segment.delete.delay.ms": "files go at once: no read holds a file after it returned",
    # Settings of Kafka that this broker has no use for.
    "background.threads": _ONE_LOOP,
    "broker.id": "node.id is used instead",
    "controller.quorum.append.linger.ms": "each entry is written at once",
    "controller.quorum.bootstrap.servers": "controller.quorum.voters counts",
    "controller.quorum.election.backoff.max.ms": _OWN_PACE,
    "controller.quorum.retry.backoff.ms": _OWN_PACE,
    "controller.quota.window.num": _NO_CHANGE_QUOTAS,
    "controller.quota.window.size.seconds": _NO_CHANGE_QUOTAS,
    "controller.socket.timeout.ms": "controller.quorum.request.timeout.ms limits each request",
    "delete.records.purgatory.purge.interval.requests": _NO_PURGATORY,
    "early.start.listeners": "all listeners start together",
    "fetch.purgatory.purge.interval.requests": _NO_PURGATORY,
    "follower.fetch.last.tiered.offset.enable": _NO_TIERS,
    "group.consumer.migration.policy": "a group changes its protocol only while it has no members",
    "group.coordinator.append.linger.ms": "each commit is written at once",
    "group.coordinator.background.threads": _ONE_LOOP,
    "group.coordinator.cached.buffer.max.bytes": "buffers are not kept",
    "group.coordinator.threads": _ONE_LOOP,
    "initial.broker.registration.timeout.ms": "a broker tries to register until it is stopped",
    "kafka.metrics.polling.interval.secs": _NO_METRICS,
    "kafka.metrics.reporters": _NO_METRICS,
    "log.cleaner.io.buffer.load.factor": "the map of keys is bounded by log.cleaner.dedupe.buffer.size alone",
    "log.cleaner.io.buffer.size": "the cleaner reads batch by batch",
    "log.cleaner.threads": _ONE_LOOP,
    "log.flush.offset.checkpoint.interval.ms": "recovery reads the last segment in any case",
    "metadata.log.segment.bytes": _ONE_FILE,
    "metadata.log.segment.ms": _ONE_FILE,
    "metadata.max.idle.interval.ms": "the quorum writes only what changes",
    "metric.reporters": _NO_METRICS,
    "metrics.num.samples": _NO_METRICS,
    "metrics.recording.level": _NO_METRICS,
    "metrics.sample.window.ms": _NO_METRICS,
    "num.io.threads": _ONE_LOOP,
    "num.network.threads": _ONE_LOOP,
    "num.recovery.threads.per.data.dir": _ONE_LOOP,
    "num.replica.alter.log.dirs.threads": _ONE_LOOP,
    "num.replica.fetchers": "one fetcher for each leader",
    "producer.purgatory.purge.interval.requests": _NO_PURGATORY,
    "replication.quota.window.num": NO_THROTTLES,
    "replication.quota.window.size.seconds": NO_THROTTLES,
    "replica.socket.receive.buffer.bytes": "the kernel sizes socket buffers by itself, which is faster",
    "request.timeout.ms": "each kind of request between brokers has a limit of its own",
    "share.coordinator.append.linger.ms": "each write is stored at once",
    "share.coordinator.cached.buffer.max.bytes": "buffers are not kept",
    "share.coordinator.threads": _ONE_LOOP,
    "share.fetch.purgatory.purge.interval.requests": _NO_PURGATORY,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "after a failure the keys are read again after 10 s",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "after a failure the keys are read again after 10 s",
    "socket.connection.setup.timeout.max.ms": "an attempt to connect ends after 1 s",
    "socket.connection.setup.timeout.ms": "an attempt to connect ends after 1 s",
    "ssl.allow.dn.changes": "a new certificate may have any name",
    "ssl.allow.san.changes": "a new certificate may have any name",
    "ssl.keymanager.algorithm": _OPENSSL,
    "ssl.provider": _OPENSSL,
    "ssl.secure.random.implementation": _OPENSSL,
    "ssl.trustmanager.algorithm": _OPENSSL,
    "telemetry.max.bytes": "clients are not asked for metrics (KIP-714)",
    "log.flush.scheduler.interval.ms": "flush.ms is looked at every 50 ms",
    "queued.max.requests": "requests are handled as they are read; 64 of a connection may wait for their answers",
    "socket.receive.buffer.bytes": "the kernel sizes socket buffers by itself, which is faster",
    "socket.send.buffer.bytes": "the kernel sizes socket buffers by itself, which is faster",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "transactions are aborted at their very deadline",
}
REFUSED: Mapping[str, str] = {
    "alter.config.policy.class.name": _NO_PLUGINS,
    "client.quota.callback.class": _NO_PLUGINS,
    "config.providers": _NO_PLUGINS,
    "controller.quorum.auto.join.enable": "voters are those of controller.quorum.voters",
    "create.topic.policy.class.name": _NO_PLUGINS,
    "follower.replication.throttled.rate": NO_THROTTLES,
    "leader.replication.throttled.rate": NO_THROTTLES,
    "max.connections.per.ip.overrides": "max.connections.per.ip holds for every address",
    "principal.builder.class": _NO_PLUGINS,
    "security.providers": _NO_PLUGINS,
    "sasl.jaas.config": "write listener.name.NAME.MECHANISM.sasl.jaas.config, as for Kafka's brokers",
    "transaction.two.phase.commit.enable": "there is no two-phase commit with outside coordinators",
}
# The first matching prefix decides. A setting is refused if it asks for something that the broker would silently lack.
_PREFIXES: tuple[tuple[str, Effect, str], ...] = (
    ("sasl.login.", Effect.WITHOUT_EFFECT, "a broker makes its own tokens when it dials, and does not fetch them"),
    (
        "sasl.oauthbearer.assertion.",
        Effect.REFUSED,
        "a broker makes its own tokens when it dials, and does not fetch them",
    ),
    ("sasl.", Effect.REFUSED, "there are PLAIN, SCRAM and OAUTHBEARER, without classes of one's own"),
    ("ssl.", Effect.REFUSED, "TLS is OpenSSL's, with PEM stores"),
    ("remote.", Effect.REFUSED, _NO_TIERS),
    ("delegation.token.", Effect.REFUSED, "there are no delegation tokens (KIP-48)"),
    ("group.share.assignors", Effect.WITHOUT_EFFECT, "there is the assignor simple"),
    ("group.streams.", Effect.REFUSED, "there are no streams groups (KIP-1071)"),
)


def support_of(name: str) -> Support | None:
    """What this broker does with a setting. None for a name that neither Kafka nor this broker has."""
    if name in WITHOUT_EFFECT:
        return Support(effect=Effect.WITHOUT_EFFECT, note=WITHOUT_EFFECT[name])
    if name in REFUSED:
        return Support(effect=Effect.REFUSED, note=REFUSED[name])
    if name in COARSER_KEYS or name in SETTINGS:
        return Support(effect=Effect.HONOURED)
    if name in kafka_settings("broker"):
        for prefix, effect, note in _PREFIXES:
            if name.startswith(prefix):
                return Support(effect=effect, note=note)
    return None


def asks_for_nothing(name: str, value: str) -> bool:
    """Whether a refused setting has Kafka's default value. Then there is nothing to refuse."""
    default = kafka_settings("broker")[name].default
    return value.strip() in ("", default) or (default == "null" and value.strip() == "null")
