"""Configuration of one broker process: the settings with their names and defaults. properties.py reads them.

Shown by tests/broker_node/test_node_config.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from broker.wire import addresses

LONG_MAX = 2**63 - 1
CORDONED_ALL = "*"  # in cordoned.log.dirs
_EXACT_MAX = 1e16  # above it Python writes a number with an exponent
# Kafka's names for the same settings in coarser units. They apply if the finer ones are not given, in this order.
COARSER: dict[str, tuple[tuple[str, int], ...]] = {
    "log.retention.ms": (("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "log.roll.ms": (("log.roll.hours", 3_600_000),),
    "log.roll.jitter.ms": (("log.roll.jitter.hours", 3_600_000),),
}
COARSER_KEYS = frozenset(name for names in COARSER.values() for name, _ in names)


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
    listeners: Mapping[str, Address]  # The addresses to bind. The key is the listener's name.
    # The addresses in Metadata. The key is the listener's name. The controllers' listener is not there.
    advertised_listeners: Mapping[str, Address]
    log_dirs: tuple[Path, ...]
    log_dir: str = "/tmp/kafka-logs"  # counts if log.dirs is not given
    # those of log.dirs that get no new replicas (KIP-1066), or * for all of them
    cordoned_log_dirs: tuple[str, ...] = ()
    metadata_log_dir: str = ""  # empty: the first of log.dirs
    # Kafka: 30000. If the controller does not learn in this time that a log directory failed, the broker ends.
    log_dir_failure_timeout_ms: int = 30_000
    process_roles: str = "broker,controller"
    inter_broker_listener_name: str = "INTERNAL"
    controller_listener_names: str = "CONTROLLER"
    listener_security_protocol_map: str = ""  # empty: a listener has the protocol of its name, else PLAINTEXT
    listener_overrides: Mapping[str, str] = field(default_factory=dict, repr=False)  # listener.name.X.KEY -> value
    given: frozenset[str] = field(default=frozenset(), repr=False)  # keys in the properties file, also if as by default
    # if it is given, the inter-broker listener is the one with this name
    security_inter_broker_protocol: str = "PLAINTEXT"
    ssl_keystore_type: str = "PEM"  # Kafka: JKS
    ssl_keystore_location: str = ""
    ssl_keystore_password: str = field(default="", repr=False)  # A PKCS12 store needs it.
    ssl_keystore_key: str = field(default="", repr=False)
    ssl_keystore_certificate_chain: str = field(default="", repr=False)
    ssl_key_password: str = field(default="", repr=False)
    ssl_truststore_type: str = "PEM"  # Kafka: JKS
    ssl_truststore_location: str = ""
    ssl_truststore_password: str = field(default="", repr=False)
    ssl_truststore_certificates: str = field(default="", repr=False)
    ssl_client_auth: str = "none"
    ssl_protocol: str = "TLSv1.3"  # the highest version that is offered
    ssl_enabled_protocols: str = "TLSv1.2,TLSv1.3"
    ssl_cipher_suites: str = ""  # names as registered by IANA; empty: OpenSSL chooses
    ssl_endpoint_identification_algorithm: str = "https"  # Connections to other brokers use it.
    ssl_principal_mapping_rules: str = "DEFAULT"
    sasl_enabled_mechanisms: str = "PLAIN"  # Kafka: GSSAPI
    sasl_mechanism_inter_broker_protocol: str = "PLAIN"  # Kafka: GSSAPI
    sasl_mechanism_controller_protocol: str = "PLAIN"  # Kafka: GSSAPI
    sasl_server_max_receive_size: int = 512 << 10
    connections_max_reauth_ms: int = 0  # 0: sessions do not end
    connection_failed_authentication_delay_ms: int = 100
    sasl_oauthbearer_jwks_endpoint_url: str = ""
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = 3_600_000
    sasl_oauthbearer_expected_audience: str = ""
    sasl_oauthbearer_expected_issuer: str = ""
    sasl_oauthbearer_clock_skew_seconds: int = 30
    sasl_oauthbearer_scope_claim_name: str = "scope"
    sasl_oauthbearer_sub_claim_name: str = "sub"

    broker_rack: str = ""  # empty: the broker is in no rack
    num_partitions: int = 1
    default_replication_factor: int = 1
    min_insync_replicas: int = 1
    auto_create_topics_enable: bool = True
    delete_topic_enable: bool = True
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    unclean_leader_election_enable: bool = False

    # The default is Kafka's. A follower that is cut off stays in the ISR for this time, and so long acks=all waits for
    # it.
    replica_lag_time_max_ms: int = 30_000
    replica_selector_class: str = ""  # empty: consumers read from leaders
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1 << 20
    replica_fetch_response_max_bytes: int = 10 << 20
    replica_fetch_backoff_ms: int = 100  # Kafka: 1000
    replica_socket_timeout_ms: int = 2_000  # Kafka: 30000; a silently broken link is noticed after this time
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    leader_replication_throttled_rate: int = LONG_MAX  # bytes per second; less makes reassignments slower
    follower_replication_throttled_rate: int = LONG_MAX  # bytes a second
    replica_alter_log_dirs_io_max_bytes_per_second: int = LONG_MAX
    alter_log_dirs_replication_quota_window_num: int = 11
    alter_log_dirs_replication_quota_window_size_seconds: int = 1
    replication_quota_window_num: int = 11
    replication_quota_window_size_seconds: int = 1

    broker_session_timeout_ms: int = 3_000  # Kafka: 9000
    broker_heartbeat_interval_ms: int = 250  # Kafka: 2000
    controller_quorum_election_timeout_ms: int = 300  # Kafka: 1000
    controller_quorum_fetch_timeout_ms: int = 1_000  # Kafka: 2000
    controller_quorum_request_timeout_ms: int = 1_000  # Kafka: 2000
    controller_quorum_fetch_max_bytes: int = 1 << 20  # It limits the entries in one answer, which has at least one.
    controller_quorum_fetch_snapshot_max_bytes: int = 1 << 20
    metadata_log_max_record_bytes_between_snapshots: int = 20 << 20
    metadata_log_max_snapshot_interval_ms: int = 3_600_000  # 0: no snapshot because of time
    # Log and snapshot together may have so many. Above it the next snapshot removes the log before it.
    metadata_max_retention_bytes: int = 100 << 20
    metadata_max_retention_ms: int = 604_800_000
    controlled_shutdown_enable: bool = True
    # not a setting of Kafka: how long a stop after SIGTERM waits for the controller
    controlled_shutdown_max_wait_ms: int = 3_000

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
    # the maximum that a client may ask for; more keeps a stuck transaction open longer
    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    # KIP-890 part 1; with version 2 there is always a verification
    transaction_partition_verification_enable: bool = True
    add_partitions_to_txn_retry_backoff_ms: int = 20
    add_partitions_to_txn_retry_backoff_max_ms: int = 100  # All retries of one question share it.
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
    group_coordinator_rebalance_protocols: str = "classic,consumer"  # Kafka: also streams
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_assignment_interval_ms: int = 1_000
    # Limits of the settings above, and of a group's own settings.
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_max_assignment_interval_ms: int = 15_000
    group_consumer_max_size: int = 2**31 - 1
    group_consumer_assignors: str = "uniform,range"
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_migration_policy: str = "bidirectional"
    group_share_session_timeout_ms: int = 45_000
    group_share_heartbeat_interval_ms: int = 5_000
    group_share_assignment_interval_ms: int = 1_000
    group_share_max_size: int = 200
    group_share_delivery_count_limit: int = 5  # deliveries of one record; after that it is given up
    group_share_record_lock_duration_ms: int = 30_000  # more: the records of a dead member are delivered again later
    # One group may lock so many in one partition. More needs memory.
    group_share_partition_max_record_locks: int = 2_000
    group_share_max_share_sessions: int = 2_000
    group_share_min_session_timeout_ms: int = 45_000
    group_share_max_session_timeout_ms: int = 60_000
    group_share_min_heartbeat_interval_ms: int = 5_000
    group_share_max_heartbeat_interval_ms: int = 15_000
    group_share_min_assignment_interval_ms: int = 0
    group_share_max_assignment_interval_ms: int = 15_000
    group_share_min_delivery_count_limit: int = 2
    group_share_max_delivery_count_limit: int = 10
    group_share_min_record_lock_duration_ms: int = 15_000
    group_share_max_record_lock_duration_ms: int = 60_000
    group_share_min_partition_max_record_locks: int = 100
    group_share_max_partition_max_record_locks: int = 4_000
    share_coordinator_state_topic_num_partitions: int = 50
    share_coordinator_state_topic_replication_factor: int = 3  # unless given: not more than there are voters
    share_coordinator_state_topic_min_isr: int = 2  # unless given: not more than the replication factor
    share_coordinator_state_topic_segment_bytes: int = 100 << 20
    share_coordinator_state_topic_compression_codec: int = 0  # the same numbers as in offsets.topic.compression.codec
    share_coordinator_load_buffer_size: int = 5 << 20
    share_coordinator_write_timeout_ms: int = 5_000
    # more: fewer bytes are written, but loading takes longer
    share_coordinator_snapshot_update_records_per_snapshot: int = 500

    socket_request_max_bytes: int = 100 << 20
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
    controller_quota_window_num: int = 11
    controller_quota_window_size_seconds: int = 1
    max_incremental_fetch_session_cache_slots: int = 1_000

    authorizer_class_name: str = ""  # empty: everybody may do everything; else Kafka's StandardAuthorizer
    super_users: str = ""  # principals that may do everything, as in User:admin;User:broker
    allow_everyone_if_no_acl_found: bool = False

    harness_routes_internal: Mapping[int, Address] = field(default_factory=dict)
    harness_routes_controller: Mapping[int, Address] = field(default_factory=dict)
    harness_journal_path: Path | None = None
    harness_journal_appends: bool = False
    harness_allow_remote: bool = False  # allows listeners without authentication that other machines can reach
    # its first int64 is the wall clock's offset in ns; None: the host's clock
    harness_clock_control: Path | None = None
    harness_disk_faults: Path | None = None  # control file of broker.log.disk_faults; None: no disk faults
    # The total of bytes in answers that clients have not read. With a higher value more slow readers stay connected,
    # but it takes memory.
    harness_unread_answer_bytes: int = 1 << 30
    harness_cluster_id: str = "cmVmZXJlbmNlLWJyb2tlcg"  # in Kafka's form: 16 bytes in base64
    harness_share_version: int = 1  # the level of share.version in a new cluster; 0: without share groups
    harness_mutant: str = ""  # the name of a deliberately wrong variant (broker.mutants); empty: none
    # Acknowledges Produce without storing: a null broker to calibrate load generators. Nothing can be read back.
    harness_discard: bool = False

    @property
    def metadata_directory(self) -> Path:
        """The directory with the metadata log."""
        return Path(self.metadata_log_dir) if self.metadata_log_dir else self.log_dirs[0]

    @property
    def cordoned_paths(self) -> frozenset[Path]:
        """Those of `log_dirs` that get no new replicas."""
        if CORDONED_ALL in self.cordoned_log_dirs:
            return frozenset(self.log_dirs)
        return frozenset(self.log_dirs) & set(map(Path, self.cordoned_log_dirs))

    @property
    def cordoned_problem(self) -> str | None:
        """Why `cordoned.log.dirs` cannot be used, in Kafka's words. None if it can."""
        named = self.cordoned_log_dirs
        if CORDONED_ALL in named:
            return None if len(named) == 1 else "When cordoned.log.dirs is set to *, it must not contain other values"
        missing = [each for each in named if Path(each) not in self.log_dirs]
        if not missing:
            return None
        cause = "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : "
        return cause + ",".join(missing)

    @property
    def internal_listener(self) -> str:
        return self.inter_broker_listener_name

    @property
    def controller_listener(self) -> str:
        return self.controller_listener_names

    def described(self) -> dict[str, str]:
        """Every setting under its Kafka name. Secrets are included; see `is_sensitive`."""
        return {key_of(each.name): text_of(getattr(self, each.name)) for each in setting_fields()}


# Kafka's settings of the type password. DescribeConfigs does not show their values.
_SENSITIVE = (
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.truststore.password",
    "ssl.keystore.certificate.chain",
    "ssl.key.password",
    "ssl.truststore.certificates",
    "sasl.jaas.config",
)


def is_sensitive(key: str) -> bool:
    """Whether the value is a secret. `key` is a setting of a broker, or of a listener with its prefix."""
    return key.endswith(_SENSITIVE)


def setting_fields() -> tuple[Field[Any], ...]:
    """The fields that stand for one setting each."""
    return tuple(each for each in fields(NodeConfig) if each.name not in ("listener_overrides", "given"))


def key_of(field_name: str) -> str:
    return field_name.replace("_", ".")


def text_of(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, Mapping):
        return ",".join(f"{name}={address}" for name, address in value.items())
    if isinstance(value, float):
        if not math.isfinite(value):  # in Java's words
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return repr(value) if abs(value) < _EXACT_MAX else f"{value:.1f}"
    return "" if value is None else str(value)
