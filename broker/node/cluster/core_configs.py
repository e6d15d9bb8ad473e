"""The settings for the cores of quorum and controller, and for the policy of snapshots."""

from __future__ import annotations

from broker.controller.core import ControllerConfig
from broker.controller.group_configs import GROUP_SETTINGS
from broker.kafka_settings import kafka_settings
from broker.node.cluster.snapshots import SnapshotConfig
from broker.node.process.descriptors import partitions_with_descriptors
from broker.node.settings.config import COARSER_KEYS, NodeConfig
from broker.node.settings.topic_config import topic_defaults
from broker.quorum.core import QuorumConfig


def quorum_config(config: NodeConfig) -> QuorumConfig:
    fetch_timeout_ms = config.controller_quorum_fetch_timeout_ms
    return QuorumConfig(
        node_id=config.node_id,
        voters=tuple(sorted(config.controller_quorum_voters)),
        election_timeout_ms=config.controller_quorum_election_timeout_ms,
        fetch_timeout_ms=fetch_timeout_ms,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        fetch_max_bytes=config.controller_quorum_fetch_max_bytes,
        fetch_snapshot_max_bytes=config.controller_quorum_fetch_snapshot_max_bytes,
        fetch_max_wait_ms=min(500, max(1, fetch_timeout_ms * 2 // 5)),
    )


def controller_config(config: NodeConfig) -> ControllerConfig:
    return ControllerConfig(
        node_id=config.node_id,
        broker_session_timeout_ms=config.broker_session_timeout_ms,
        num_partitions=config.num_partitions,
        default_replication_factor=config.default_replication_factor,
        min_insync_replicas=config.min_insync_replicas,
        share_version=config.harness_share_version,
        unclean_leader_election_enable=config.unclean_leader_election_enable,
        auto_leader_rebalance_enable=config.auto_leader_rebalance_enable,
        leader_imbalance_check_interval_ms=config.leader_imbalance_check_interval_seconds * 1000,
        broker_settings=frozenset({*kafka_settings("broker"), *COARSER_KEYS, *config.described()}),
        group_values=_group_values(config),
        topic_defaults=topic_defaults(config),
        partitions_max=partitions_with_descriptors(),
    )


def _group_values(config: NodeConfig) -> dict[str, int]:
    """Every setting that is the default of a group's setting, or its limit."""
    described = config.described()
    names = {
        key
        for setting in GROUP_SETTINGS.values()
        for key in (setting.broker_key, setting.low_key, setting.high_key)
        if key is not None
    }
    return {key: int(described[key]) for key in sorted(names) if key in described}


def snapshot_config(config: NodeConfig) -> SnapshotConfig:
    return SnapshotConfig(
        max_record_bytes=config.metadata_log_max_record_bytes_between_snapshots,
        max_interval_ms=config.metadata_log_max_snapshot_interval_ms,
        retention_bytes=config.metadata_max_retention_bytes,
        retention_ms=config.metadata_max_retention_ms,
    )
