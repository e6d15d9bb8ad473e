"""Producer, consumer and admin settings: Kafka's names, units, ranges and defaults of Kafka 4.x.

A field `linger_ms` is the property `linger.ms`. The settings of security are in security_config.py. Metrics reporters,
client telemetry and adaptive partitioning are left out.
Shown by tests/broker_client/test_client_config.py.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from broker.client.core.errors import ConfigurationError
from broker.client.core.security_config import PLAINTEXT, SecurityConfig, parse_security, without_security
from broker.client.core.settings import (
    INT32_MAX,
    INT64_MAX,
    parse_duration_ms,
    parse_properties,
    property_name,
    setting,
    settings_of,
)
from broker.client.core.settings import as_properties as _as_properties
from broker.wire.addresses import AddressError, parse_address

__all__ = [
    "AdminConfig",
    "ConsumerConfig",
    "ProducerConfig",
    "as_properties",
    "names_of",
    "parse_admin",
    "parse_consumer",
    "parse_producer",
]

COMPRESSION_TYPES = ("none", "gzip", "snappy", "lz4", "zstd")
ROUND_ROBIN = ("round_robin", "org.apache.kafka.clients.producer.RoundRobinPartitioner")
IDEMPOTENT_IN_FLIGHT_MAX = 5  # a broker remembers the last five batches of a producer in a partition
GROUP_PROTOCOLS = ("classic", "consumer")
# With group.protocol=consumer the broker decides these (KIP-848), as in Java's client.
RESET_POLICIES = ("earliest", "latest", "none")
# Each assignor is listed under its name in the protocol and under the name of Java's class.
ASSIGNOR_CLASSES = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
ASSIGNOR_NAMES = frozenset({*ASSIGNOR_CLASSES, *ASSIGNOR_CLASSES.values()})
_CLASSIC_ONLY = ("partition_assignment_strategy", "heartbeat_interval_ms", "session_timeout_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """`acks` is kept as text (all, 1, 0); see `acks_code`. Larger buffers and linger cost memory and latency."""

    bootstrap_servers: tuple[str, ...] = setting(())
    client_id: str = setting("")
    acks: str = setting("all", choices=("all", "-1", "0", "1"))
    enable_idempotence: bool = setting(True)
    batch_size: int = setting(16384, low=0, high=INT32_MAX)
    linger_ms: int = setting(5, low=0, high=INT64_MAX)
    compression_type: str = setting("none", choices=COMPRESSION_TYPES)
    compression_gzip_level: int = setting(-1, low=-1, high=9)
    compression_lz4_level: int = setting(9, low=1, high=17)
    compression_zstd_level: int = setting(3, low=-131072, high=22)
    buffer_memory: int = setting(33554432, low=0, high=INT64_MAX)
    max_block_ms: int = setting(60000, low=0, high=INT64_MAX)
    # If it is not empty, the producer has transactions. A producer that starts with the same id fences its predecessor.
    transactional_id: str = setting("")
    # The coordinator aborts a transaction that lasts longer.
    transaction_timeout_ms: int = setting(60000, low=1, high=INT32_MAX)
    max_request_size: int = setting(1048576, low=0, high=INT32_MAX)
    max_in_flight_requests_per_connection: int = setting(5, low=1, high=INT32_MAX)
    retries: int = setting(INT32_MAX, low=0, high=INT32_MAX)
    retry_backoff_ms: int = setting(100, low=0, high=INT64_MAX)
    retry_backoff_max_ms: int = setting(1000, low=0, high=INT64_MAX)
    delivery_timeout_ms: int = setting(120000, low=0, high=INT32_MAX)
    request_timeout_ms: int = setting(30000, low=0, high=INT32_MAX)
    metadata_max_age_ms: int = setting(300000, low=0, high=INT64_MAX)
    metadata_max_idle_ms: int = setting(300000, low=5000, high=INT64_MAX)
    reconnect_backoff_ms: int = setting(50, low=0, high=INT64_MAX)
    reconnect_backoff_max_ms: int = setting(1000, low=0, high=INT64_MAX)
    socket_connection_setup_timeout_ms: int = setting(10000, low=1, high=INT64_MAX)
    send_buffer_bytes: int = setting(131072, low=-1, high=INT32_MAX)
    receive_buffer_bytes: int = setting(32768, low=-1, high=INT32_MAX)
    partitioner_class: str = setting("", choices=("", *ROUND_ROBIN))
    partitioner_ignore_keys: bool = setting(False)
    security: SecurityConfig = PLAINTEXT

    @property
    def acks_code(self) -> int:
        """The number on the wire: -1 means all in-sync replicas."""
        return -1 if self.acks in ("all", "-1") else int(self.acks)

    @property
    def compression_level(self) -> int | None:
        """The level of the chosen codec. None if the codec has no level."""
        levels = {
            "gzip": self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }
        return levels.get(self.compression_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig:
    """Limits of a fetch: a broker waits `fetch_max_wait_ms` for `fetch_min_bytes`. A response holds up to
    `fetch_max_bytes`, and for one partition up to `max_partition_fetch_bytes` (but always one batch).

    A member is removed if it does not poll for `max_poll_interval_ms`, or if the coordinator receives nothing from it
    for `session_timeout_ms`.
    """

    bootstrap_servers: tuple[str, ...] = setting(())
    client_id: str = setting("")
    fetch_min_bytes: int = setting(1, low=0, high=INT32_MAX)
    fetch_max_wait_ms: int = setting(500, low=0, high=INT32_MAX)
    fetch_max_bytes: int = setting(52428800, low=0, high=INT32_MAX)
    max_partition_fetch_bytes: int = setting(1048576, low=0, high=INT32_MAX)
    max_poll_records: int = setting(500, low=1, high=INT32_MAX)
    group_id: str = setting("")
    group_instance_id: str = setting("")
    group_protocol: str = setting("classic", choices=GROUP_PROTOCOLS)
    group_remote_assignor: str = setting("")
    partition_assignment_strategy: tuple[str, ...] = setting(("range", "cooperative-sticky"))
    session_timeout_ms: int = setting(45000, low=1, high=INT32_MAX)
    heartbeat_interval_ms: int = setting(3000, low=1, high=INT32_MAX)
    max_poll_interval_ms: int = setting(300000, low=1, high=INT32_MAX)
    enable_auto_commit: bool = setting(True)
    auto_commit_interval_ms: int = setting(5000, low=0, high=INT32_MAX)
    allow_auto_create_topics: bool = setting(True)
    client_rack: str = setting("")
    auto_offset_reset: str = setting("latest")  # earliest, latest, none, by_duration:<ISO 8601>
    isolation_level: str = setting("read_uncommitted", choices=("read_uncommitted", "read_committed"))
    check_crcs: bool = setting(True)
    request_timeout_ms: int = setting(30000, low=0, high=INT32_MAX)
    default_api_timeout_ms: int = setting(60000, low=0, high=INT32_MAX)
    retry_backoff_ms: int = setting(100, low=0, high=INT64_MAX)
    retry_backoff_max_ms: int = setting(1000, low=0, high=INT64_MAX)
    metadata_max_age_ms: int = setting(300000, low=0, high=INT64_MAX)
    reconnect_backoff_ms: int = setting(50, low=0, high=INT64_MAX)
    reconnect_backoff_max_ms: int = setting(1000, low=0, high=INT64_MAX)
    socket_connection_setup_timeout_ms: int = setting(10000, low=1, high=INT64_MAX)
    send_buffer_bytes: int = setting(131072, low=-1, high=INT32_MAX)
    receive_buffer_bytes: int = setting(65536, low=-1, high=INT32_MAX)
    security: SecurityConfig = PLAINTEXT

    @property
    def has_group(self) -> bool:
        return self.group_id != ""

    @property
    def reset_duration_ms(self) -> int | None:
        """The duration of by_duration (KIP-1106): reading starts at the first record that is not older than this. None
        with another policy."""
        return parse_duration_ms(self.auto_offset_reset)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConfig:
    bootstrap_servers: tuple[str, ...] = setting(())
    client_id: str = setting("")
    request_timeout_ms: int = setting(30000, low=0, high=INT32_MAX)
    default_api_timeout_ms: int = setting(60000, low=0, high=INT32_MAX)
    retry_backoff_ms: int = setting(100, low=0, high=INT64_MAX)
    retry_backoff_max_ms: int = setting(1000, low=0, high=INT64_MAX)
    metadata_max_age_ms: int = setting(300000, low=0, high=INT64_MAX)
    reconnect_backoff_ms: int = setting(50, low=0, high=INT64_MAX)
    reconnect_backoff_max_ms: int = setting(1000, low=0, high=INT64_MAX)
    socket_connection_setup_timeout_ms: int = setting(10000, low=1, high=INT64_MAX)
    send_buffer_bytes: int = setting(131072, low=-1, high=INT32_MAX)
    receive_buffer_bytes: int = setting(65536, low=-1, high=INT32_MAX)
    security: SecurityConfig = PLAINTEXT


Config = TypeVar("Config", ProducerConfig, ConsumerConfig, AdminConfig)


def names_of(kind: type[ProducerConfig | ConsumerConfig | AdminConfig]) -> frozenset[str]:
    """The names of all properties of this configuration, including those of security."""
    return frozenset(property_name(each.name) for each in (*settings_of(kind), *settings_of(SecurityConfig)))


def as_properties(config: ProducerConfig | ConsumerConfig | AdminConfig) -> dict[str, str]:
    """The effective configuration as Kafka properties, for reports. Passwords are hidden. Of the security settings it
    contains only those that are in use: with PLAINTEXT only the protocol."""
    security = _as_properties(config.security)
    if config.security.security_protocol == "PLAINTEXT":
        security = {"security.protocol": "PLAINTEXT"}
    return {**_as_properties(config), **security}


def _parsed(
    kind: type[Config], properties: Mapping[str, object], refused: Mapping[str, str]
) -> tuple[Config, frozenset[str]]:
    known = names_of(kind)
    config, given = parse_properties(kind, without_security(properties), refused, nearest_of=known)
    return dataclasses.replace(config, security=parse_security(properties)), given


def parse_producer(properties: Mapping[str, object]) -> ProducerConfig:
    config, given = _parsed(
        ProducerConfig,
        properties,
        {"transaction.two.phase.commit.enable": "two-phase commit by the client (KIP-939) is not served"},
    )
    require_bootstrap(config.bootstrap_servers)
    settled = _settle_idempotence(config, given)
    if config.transactional_id and not settled.enable_idempotence:
        raise ConfigurationError(
            "transactional.id: needs enable.idempotence=true, hence acks=all, retries above 0 and "
            f"max.in.flight.requests.per.connection of at most {IDEMPOTENT_IN_FLIGHT_MAX}"
        )
    return _settle_delivery_timeout(settled, given)


def parse_consumer(properties: Mapping[str, object]) -> ConsumerConfig:
    config, given = _parsed(ConsumerConfig, properties, {})
    require_bootstrap(config.bootstrap_servers)
    if config.auto_offset_reset not in RESET_POLICIES and config.reset_duration_ms is None:
        raise ConfigurationError(
            f"auto.offset.reset: expected one of {', '.join(RESET_POLICIES)} or by_duration:<ISO 8601 duration>, as in "
            f"by_duration:PT1H, got {config.auto_offset_reset!r}"
        )
    return _settle_group(config, given)


def _settle_group(config: ConsumerConfig, given: frozenset[str]) -> ConsumerConfig:
    """Without a group nothing is committed. Each of the two group protocols has settings of its own, as in Java's
    client."""
    if not config.has_group:
        if "enable_auto_commit" in given and config.enable_auto_commit:
            raise ConfigurationError("enable.auto.commit=true: needs a group.id to commit for")
        if config.group_instance_id:
            raise ConfigurationError("group.instance.id: needs a group.id")
        return dataclasses.replace(config, enable_auto_commit=False)
    if config.group_protocol == "consumer":
        for field in _CLASSIC_ONLY:
            if field in given:
                raise ConfigurationError(
                    f"{property_name(field)}: with group.protocol=consumer the broker decides that; leave it out"
                )
        return config
    if config.group_remote_assignor:
        raise ConfigurationError("group.remote.assignor: needs group.protocol=consumer")
    if config.heartbeat_interval_ms >= config.session_timeout_ms:
        raise ConfigurationError(
            f"heartbeat.interval.ms: must be below session.timeout.ms={config.session_timeout_ms}, "
            f"is {config.heartbeat_interval_ms}"
        )
    if not config.partition_assignment_strategy:
        raise ConfigurationError("partition.assignment.strategy: needs at least one assignor")
    for name in config.partition_assignment_strategy:
        if name not in ASSIGNOR_NAMES:
            near = difflib.get_close_matches(name, ASSIGNOR_NAMES, n=1, cutoff=0.4)
            nearest = f", nearest is {near[0]!r}" if near else ""
            raise ConfigurationError(
                f"partition.assignment.strategy: expected some of {', '.join(ASSIGNOR_CLASSES)}, got {name!r}{nearest}"
            )
    return config


def parse_admin(properties: Mapping[str, object]) -> AdminConfig:
    config, _ = _parsed(AdminConfig, properties, {})
    require_bootstrap(config.bootstrap_servers)
    return config


def require_bootstrap(servers: tuple[str, ...]) -> None:
    if not servers:
        raise ConfigurationError("bootstrap.servers: needs at least one host:port")
    for server in servers:
        try:
            host, _ = parse_address(server)
        except AddressError as error:
            raise ConfigurationError(f"bootstrap.servers: {error}") from error
        if not host:
            raise ConfigurationError(f"bootstrap.servers: expected host:port, got {server!r}")


def _settle_idempotence(config: ProducerConfig, given: frozenset[str]) -> ProducerConfig:
    """As in Java's client, a conflict with an explicit `enable.idempotence=true` is an error. Without an explicit
    value, idempotence is switched off."""
    if not config.enable_idempotence:
        return config
    conflicts = []
    if config.retries == 0:
        conflicts.append("retries must be above 0")
    if config.acks_code != -1:
        conflicts.append(f"acks must be all, is {config.acks}")
    in_flight = config.max_in_flight_requests_per_connection
    if in_flight > IDEMPOTENT_IN_FLIGHT_MAX:
        conflicts.append(
            f"max.in.flight.requests.per.connection must be at most {IDEMPOTENT_IN_FLIGHT_MAX}, is {in_flight}"
        )
    if conflicts and "enable_idempotence" in given:
        raise ConfigurationError(f"enable.idempotence=true: {'; '.join(conflicts)}")
    return dataclasses.replace(config, enable_idempotence=False) if conflicts else config


def _settle_delivery_timeout(config: ProducerConfig, given: frozenset[str]) -> ProducerConfig:
    """delivery.timeout.ms must be long enough for linger and one whole request. As in Java, a default value that is too
    short is raised, and an explicit one is refused."""
    least_ms = min(config.linger_ms + config.request_timeout_ms, INT32_MAX)
    if config.delivery_timeout_ms >= least_ms:
        return config
    if "delivery_timeout_ms" in given:
        raise ConfigurationError(
            f"delivery.timeout.ms: must be at least linger.ms + request.timeout.ms = {least_ms}, "
            f"is {config.delivery_timeout_ms}"
        )
    return dataclasses.replace(config, delivery_timeout_ms=least_ms)
