"""Configuration of one broker process: Kafka's properties file -> NodeConfig.

Owns names, defaults and checks. A key that Kafka or we do not know is reported with the nearest known one and ignored,
as Kafka does; a value that cannot be used is a ConfigError with file and line.
Shown by tests/broker_node/test_node_config.py.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from broker.controller.topic_configs import Effect
from broker.kafka_settings import kafka_settings
from broker.node.broker_settings import asks_for_nothing, support_of
from broker.wire import addresses

LONG_MAX = 2**63 - 1


class ConfigError(Exception):
    """A value that the broker cannot start with. The message begins with FILE:LINE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return addresses.format_address(self.host, self.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Every setting this broker reads, under Kafka's name with underscores. Times in ms, sizes in bytes."""

    node_id: int
    controller_quorum_voters: Mapping[int, Address]
    listeners: Mapping[str, Address]  # by listener name: where we bind
    advertised_listeners: Mapping[str, Address]  # by listener name: what Metadata answers; CONTROLLER is not in it
    log_dirs: Path  # the first and only directory
    process_roles: str = "broker,controller"
    inter_broker_listener_name: str = "INTERNAL"
    controller_listener_names: str = "CONTROLLER"
    listener_security_protocol_map: str = ""  # PLAINTEXT is all we speak: anything else is refused

    num_partitions: int = 1
    default_replication_factor: int = 1
    min_insync_replicas: int = 1
    auto_create_topics_enable: bool = True
    delete_topic_enable: bool = True
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    unclean_leader_election_enable: bool = False

    # Kafka's default is 30000; a follower that is cut stays in the ISR, and in the way of acks=all, that long.
    replica_lag_time_max_ms: int = 30_000
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1 << 20
    replica_fetch_response_max_bytes: int = 10 << 20
    replica_fetch_backoff_ms: int = 100  # Kafka: 1000
    replica_socket_timeout_ms: int = 2_000  # Kafka: 30000; a silent cut is noticed after this
    replica_high_watermark_checkpoint_interval_ms: int = 5_000

    broker_session_timeout_ms: int = 3_000  # Kafka: 9000
    broker_heartbeat_interval_ms: int = 250  # Kafka: 2000
    controller_quorum_election_timeout_ms: int = 300  # Kafka: 1000
    controller_quorum_fetch_timeout_ms: int = 1_000  # Kafka: 2000
    controller_quorum_request_timeout_ms: int = 1_000  # Kafka: 2000
    controller_quorum_fetch_max_bytes: int = 1 << 20  # of entries in one answer; one entry at least
    controller_quorum_fetch_snapshot_max_bytes: int = 1 << 20
    metadata_log_max_record_bytes_between_snapshots: int = 20 << 20
    metadata_log_max_snapshot_interval_ms: int = 3_600_000  # 0: never by time
    metadata_max_retention_bytes: int = 100 << 20  # of log and snapshot; beyond it the next snapshot shortens the log
    metadata_max_retention_ms: int = 604_800_000
    controlled_shutdown_enable: bool = True
    controlled_shutdown_max_wait_ms: int = 3_000  # ours: how long SIGTERM waits for the controller

    log_segment_bytes: int = 1 << 30
    log_roll_ms: int = 604_800_000
    log_roll_jitter_ms: int = 0
    log_index_interval_bytes: int = 4096
    log_index_size_max_bytes: int = 10 << 20
    log_cleanup_policy: str = "delete"
    log_retention_ms: int = 604_800_000
    log_retention_bytes: int = -1
    log_retention_check_interval_ms: int = 300_000
    log_initial_task_delay_ms: int = 30_000
    log_segment_delete_delay_ms: int = 60_000
    log_flush_interval_messages: int = LONG_MAX
    log_flush_interval_ms: int = LONG_MAX
    log_flush_scheduler_interval_ms: int = LONG_MAX
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    log_cleaner_enable: bool = True
    log_cleaner_backoff_ms: int = 15_000
    log_cleaner_dedupe_buffer_size: int = 128 << 20
    log_cleaner_io_max_bytes_per_second: float = float(LONG_MAX)
    log_cleaner_min_cleanable_ratio: float = 0.5
    log_cleaner_min_compaction_lag_ms: int = 0
    log_cleaner_max_compaction_lag_ms: int = LONG_MAX
    log_cleaner_delete_retention_ms: int = 86_400_000
    log_message_timestamp_type: str = "CreateTime"
    log_message_timestamp_before_max_ms: int = LONG_MAX
    log_message_timestamp_after_max_ms: int = 3_600_000
    log_local_retention_bytes: int = -2
    log_local_retention_ms: int = -2
    log_preallocate: bool = False
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    message_max_bytes: int = 1_048_588
    producer_id_expiration_ms: int = 86_400_000

    transaction_state_log_replication_factor: int = 3  # unless given: not more than there are voters
    transaction_state_log_min_isr: int = 2  # unless given: not more than the replication factor
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_segment_bytes: int = 100 << 20
    transaction_state_log_load_buffer_size: int = 5 << 20
    transaction_max_timeout_ms: int = 900_000  # what a client may ask for; more keeps a stuck transaction open longer
    transactional_id_expiration_ms: int = 604_800_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    transaction_partition_verification_enable: bool = True  # KIP-890 part 1; with version 2 there is no way around it
    add_partitions_to_txn_retry_backoff_ms: int = 20
    add_partitions_to_txn_retry_backoff_max_ms: int = 100  # all retries of one question together
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3  # unless given: not more than there are voters
    offsets_topic_segment_bytes: int = 100 << 20
    offsets_topic_compression_codec: int = 0  # 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
    offsets_commit_timeout_ms: int = 5_000
    offsets_load_buffer_size: int = 5 << 20
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    offset_metadata_max_bytes: int = 4_096
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    group_coordinator_rebalance_protocols: str = "classic,consumer"  # Kafka: streams too
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_assignors: str = "uniform,range"
    group_consumer_migration_policy: str = "disabled"  # Kafka: bidirectional; a group changes protocol while empty

    socket_request_max_bytes: int = 100 << 20
    socket_send_buffer_bytes: int = 102_400
    socket_receive_buffer_bytes: int = 102_400
    queued_max_requests: int = 500
    queued_max_request_bytes: int = 1 << 30  # Kafka: no limit; many connections could each announce 100 MiB
    fetch_max_bytes: int = 55 << 20
    max_connections: int = 2_000
    socket_listen_backlog_size: int = 512  # Kafka: 50
    max_request_partition_size_limit: int = 2_000
    max_connections_per_ip: int = 2**31 - 1
    max_connection_creation_rate: int = 2**31 - 1
    connections_max_idle_ms: int = 600_000
    quota_window_num: int = 11
    quota_window_size_seconds: int = 1
    max_incremental_fetch_session_cache_slots: int = 1_000

    harness_routes_internal: Mapping[int, Address] = field(default_factory=dict)
    harness_routes_controller: Mapping[int, Address] = field(default_factory=dict)
    harness_journal_path: Path | None = None
    harness_journal_appends: bool = False
    harness_allow_remote: bool = False  # listeners that other machines can reach; there is no authentication
    harness_clock_control: Path | None = None  # its first int64: the wall clock's offset in ns; None: as the host's
    harness_disk_faults: Path | None = None  # control file of broker.log.disk_faults; None: the disk as it is
    # Of answers that clients do not read, in all. More lets more slow readers stay, and takes as much memory.
    harness_unread_answer_bytes: int = 1 << 30
    harness_cluster_id: str = "reference-cluster"
    harness_mutant: str = ""  # the name of a deliberately wrong variant (broker.mutants); empty: none
    # Acknowledge produce without storing: a null broker to calibrate load generators with. Nothing can be read back.
    harness_discard: bool = False

    @property
    def internal_listener(self) -> str:
        return self.inter_broker_listener_name

    @property
    def controller_listener(self) -> str:
        return self.controller_listener_names

    def described(self) -> dict[str, str]:
        """Every setting under its Kafka name, as DescribeConfigs tells it."""
        return {key_of(each.name): text_of(getattr(self, each.name)) for each in fields(self)}


def key_of(field_name: str) -> str:
    return field_name.replace("_", ".")


def text_of(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return ",".join(f"{name}={address}" for name, address in value.items())
    if isinstance(value, float):
        return f"{value:.17g}" if value != int(value) or value < 1 else f"{value:.1f}"
    return "" if value is None else str(value)


def with_dynamic(config: NodeConfig, overrides: Mapping[str, str]) -> NodeConfig:
    """`config` with what IncrementalAlterConfigs set for this broker at run time (KIP-226); values were checked."""
    known = {key_of(each.name): each for each in fields(NodeConfig)}
    values: dict[str, object] = {}
    for key, text in overrides.items():
        if key in known:
            values[known[key].name] = _parser(known[key].name, known[key].type)(text)
    return replace(config, **values) if values else config  # type: ignore[arg-type]  # each from its field's parser


def parse_address(text: str) -> Address:
    host, port = addresses.parse_address(text, allow_zero=True)
    return Address(host=host or "127.0.0.1", port=port)


def _listeners(text: str) -> dict[str, Address]:
    found = {}
    for part in _items(text):
        name, separator, address = part.partition("://")
        if not separator:
            raise ValueError(f"expected NAME://HOST:PORT, got {part!r}")
        found[name.strip().upper()] = parse_address(address)
    return found


def _nodes(text: str) -> dict[int, Address]:
    found = {}
    for part in _items(text):
        node, separator, address = part.partition("@")
        if not separator or not node.strip().isdigit():
            raise ValueError(f"expected ID@HOST:PORT, got {part!r}")
        found[int(node)] = parse_address(address)
    return found


def _items(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"expected true or false, got {text!r}")
    return text.lower() == "true"


def _choices(*allowed: str, needed: str | None = None) -> Callable[[str], str]:
    """A comma-separated list of some of these, in lower case; `needed` must be among them."""

    def parse(text: str) -> str:
        given = [item.lower() for item in _items(text)]
        wrong = [item for item in given if item not in allowed]
        if wrong or not given or (needed is not None and needed not in given):
            hint = "" if needed is None else f" with {needed}"
            raise ValueError(f"expected some of {', '.join(allowed)}{hint}, got {text!r}")
        return ",".join(given)

    return parse


def _codec(text: str) -> int:
    if text not in ("0", "1", "2", "3", "4"):
        raise ValueError(f"expected 0 (none), 1 (gzip), 2 (snappy), 3 (lz4) or 4 (zstd), got {text!r}")
    return int(text)


def _positive(text: str) -> int:
    value = _natural(text)
    if value < 1:
        raise ValueError(f"expected a number of at least 1, got {text!r}")
    return value


def _directory(text: str) -> Path:
    directories = _items(text)
    if len(directories) != 1:
        raise ValueError(f"expected one directory, got {text!r}: several log.dirs are not supported")
    return Path(directories[0])


_PARSERS: dict[str, Callable[[str], object]] = {
    "controller_quorum_voters": _nodes,
    "harness_routes_internal": _nodes,
    "harness_routes_controller": _nodes,
    "listeners": _listeners,
    "advertised_listeners": _listeners,
    "log_dirs": _directory,
    "harness_journal_path": Path,
    "harness_clock_control": Path,
    "harness_disk_faults": Path,
    "offsets_topic_compression_codec": _codec,
    "offsets_topic_num_partitions": lambda text: _positive(text),
    "offsets_topic_replication_factor": lambda text: _positive(text),
    "transaction_state_log_num_partitions": lambda text: _positive(text),
    "transaction_state_log_replication_factor": lambda text: _positive(text),
    "transaction_state_log_min_isr": lambda text: _positive(text),
    "offsets_retention_check_interval_ms": lambda text: _positive(text),
    "offsets_load_buffer_size": lambda text: _positive(text),
    "group_coordinator_rebalance_protocols": _choices("classic", "consumer", needed="classic"),
    "group_consumer_assignors": _choices("uniform", "range"),
    "group_consumer_migration_policy": _choices("disabled"),
}
_MAY_BE_NEGATIVE = frozenset(
    {
        "log_retention_ms",
        "log_retention_bytes",
        "metadata_max_retention_bytes",
        "metadata_max_retention_ms",
        "log_local_retention_bytes",
        "log_local_retention_ms",
        "compression_gzip_level",
        "compression_zstd_level",
        "queued_max_request_bytes",
    }
)
# Kafka's coarser names of the same settings: they count where the finer ones are absent, in this order.
_COARSER: dict[str, tuple[tuple[str, int], ...]] = {
    "log.retention.ms": (("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "log.roll.ms": (("log.roll.hours", 3_600_000),),
    "log.roll.jitter.ms": (("log.roll.jitter.hours", 3_600_000),),
}
COARSER_KEYS = frozenset(name for names in _COARSER.values() for name, _ in names)


def _parser(name: str, kind: object) -> Callable[[str], object]:
    if name in _PARSERS:
        return _PARSERS[name]
    if kind == "bool":
        return _boolean
    if kind == "float":
        return _number
    if kind == "int":
        return _negative_too if name in _MAY_BE_NEGATIVE else _natural
    return str


def _natural(text: str) -> int:
    value = _negative_too(text)
    if value < 0:
        raise ValueError(f"expected a number of at least 0, got {text!r}")
    return value


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"expected a number, got {text!r}") from None
    if value < 0:
        raise ValueError(f"expected a number of at least 0, got {text!r}")
    return value


def _negative_too(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"expected a whole number, got {text!r}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    key: str
    value: str
    line: int


def parse_properties(text: str, *, source: str) -> list[Property]:
    """`key=value` lines; # and ! begin a comment. Continuation lines are not supported."""
    found = []
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line[0] in "#!":
            continue
        key, separator, value = line.partition("=")
        if not separator:
            raise ConfigError(f"{source}:{number}: expected key=value, got {line!r}")
        found.append(Property(key=key.strip(), value=value.strip(), line=number))
    return found


def load_config(path: Path) -> tuple[NodeConfig, list[str]]:
    """The configuration and the warnings. Raises ConfigError; OSError when the file cannot be read."""
    properties = parse_properties(path.read_text(), source=str(path))
    known = {key_of(each.name): each for each in fields(NodeConfig)}
    values: dict[str, object] = {}
    warnings = []
    lines: dict[str, int] = {}
    for prop in properties:
        lines[prop.key] = prop.line
        if prop.key in known:
            setting = known[prop.key]
            try:
                values[setting.name] = _parser(setting.name, setting.type)(prop.value)
            except ValueError as error:
                raise ConfigError(f"{path}:{prop.line}: {prop.key}: {error}") from None
        support = support_of(prop.key)
        if support is None:
            warnings.append(f"{path}:{prop.line}: unknown key {prop.key}, ignored{_nearest(prop.key, known)}")
        elif support.effect is Effect.WITHOUT_EFFECT:
            warnings.append(f"{path}:{prop.line}: {prop.key} has no effect: {support.note}")
        elif support.effect is Effect.REFUSED and not asks_for_nothing(prop.key, prop.value):
            raise ConfigError(f"{path}:{prop.line}: {prop.key}={prop.value} is not supported: {support.note}")
    _apply_coarser(path, properties, values)
    return _complete(path, values, lines), warnings


def _apply_coarser(path: Path, properties: list[Property], values: dict[str, object]) -> None:
    """log.retention.hours and the like, where the setting in milliseconds is not given."""
    given = {prop.key: prop for prop in properties}
    for key, coarser in _COARSER.items():
        name = key.replace(".", "_")
        for other, factor_ms in coarser:
            if name in values or other not in given:
                continue
            try:
                value = _negative_too(given[other].value)
            except ValueError as error:
                raise ConfigError(f"{path}:{given[other].line}: {other}: {error}") from None
            values[name] = value * factor_ms if value >= 0 else -1
            break


def _check_plain(path: Path, lines: Mapping[str, int], values: Mapping[str, object]) -> None:
    """Roles and protocols that the process does not have are errors, not wishes."""
    roles = set(_items(str(values.get("process_roles", "broker,controller"))))
    if roles != {"broker", "controller"}:
        line = lines["process.roles"]
        raise ConfigError(f"{path}:{line}: process.roles: expected broker,controller, got {','.join(sorted(roles))}")
    for item in _items(str(values.get("listener_security_protocol_map", ""))):
        if item.rpartition(":")[2].strip().upper() != "PLAINTEXT":
            line = lines["listener.security.protocol.map"]
            raise ConfigError(f"{path}:{line}: listener.security.protocol.map: only PLAINTEXT is spoken, got {item}")


def _check_reachable(
    path: Path, listeners: Mapping[str, Address], lines: Mapping[str, int], values: Mapping[str, object]
) -> None:
    """Loopback only unless told otherwise: everybody who reaches a listener may do everything."""
    for name, address in listeners.items():
        is_loopback = address.host in ("localhost", "::1") or address.host.startswith("127.")
        if not is_loopback and not values.get("harness_allow_remote", False):
            raise ConfigError(
                f"{path}:{lines['listeners']}: listeners: {name} at {address} can be reached from other machines, and "
                "there is no authentication; use 127.0.0.1, or say harness.allow.remote=true"
            )


def _nearest(key: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(key, [*known, *kafka_settings("broker")], n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _complete(path: Path, values: dict[str, object], lines: Mapping[str, int]) -> NodeConfig:
    for required in ("node_id", "controller_quorum_voters", "listeners", "log_dirs"):
        if required not in values:
            raise ConfigError(f"{path}:1: {key_of(required)} is missing")
    listeners = values["listeners"]
    assert isinstance(listeners, dict)
    advertised = values.get("advertised_listeners") or {}
    assert isinstance(advertised, dict)
    controller = str(values.get("controller_listener_names", "CONTROLLER"))
    values["advertised_listeners"] = {
        name: advertised.get(name, address) for name, address in listeners.items() if name != controller
    }
    _check_reachable(path, listeners, lines, values)
    _check_plain(path, lines, values)
    voters = values["controller_quorum_voters"]
    assert isinstance(voters, dict)
    values.setdefault("offsets_topic_replication_factor", max(1, min(3, len(voters))))
    replicas = values.setdefault("transaction_state_log_replication_factor", max(1, min(3, len(voters))))
    assert isinstance(replicas, int)
    values.setdefault("transaction_state_log_min_isr", min(2, replicas))
    config = NodeConfig(**values)  # type: ignore[arg-type]  # each value came from the parser of its field
    for name, key in (
        (config.internal_listener, "inter.broker.listener.name"),
        (controller, "controller.listener.names"),
    ):
        if name not in listeners:
            line = lines.get(key, lines["listeners"])
            raise ConfigError(f"{path}:{line}: {key}: there is no listener {name} in {sorted(listeners)}")
    unknown = set(advertised) - set(listeners)
    if unknown:
        line = lines["advertised.listeners"]
        raise ConfigError(f"{path}:{line}: advertised.listeners: {sorted(unknown)} not among listeners")
    if config.node_id not in config.controller_quorum_voters:
        line = lines["controller.quorum.voters"]
        raise ConfigError(f"{path}:{line}: controller.quorum.voters: node.id {config.node_id} is not among the voters")
    return config
