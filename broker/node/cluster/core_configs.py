"""The settings for the cores of quorum and controller, and for the policy of snapshots."""

from __future__ import annotations

from broker.controller.core import ControllerConfig
from broker.controller.group_configs import GROUP_SETTINGS
from broker.kafka_settings import kafka_settings
from broker.node.cluster.snapshots import SnapshotConfig
from broker.node.process.descriptors import partitions_with_descriptors
from broker.node.settings.config import COARSER_KEYS, SETTINGS, NodeConfig
from broker.node.settings.sections.cluster import QuorumSettings
from broker.node.settings.sections.section import described
from broker.node.settings.topic_config import topic_defaults
from broker.quorum.core import QuorumConfig


def quorum_config(settings: QuorumSettings) -> QuorumConfig:
    fetch_timeout_ms = settings.controller_quorum_fetch_timeout_ms
    return QuorumConfig(
        node_id=settings.node_id,
        voters=tuple(sorted(settings.controller_quorum_voters)),
        election_timeout_ms=settings.controller_quorum_election_timeout_ms,
        fetch_timeout_ms=fetch_timeout_ms,
        request_timeout_ms=settings.controller_quorum_request_timeout_ms,
        fetch_max_bytes=settings.controller_quorum_fetch_max_bytes,
        fetch_snapshot_max_bytes=settings.controller_quorum_fetch_snapshot_max_bytes,
        fetch_max_wait_ms=min(500, max(1, fetch_timeout_ms * 2 // 5)),
    )


def controller_config(config: NodeConfig) -> ControllerConfig:
    return ControllerConfig(
        node_id=config.node_id,
        broker_session_timeout_ms=config.cluster.broker_session_timeout_ms,
        num_partitions=config.topics.num_partitions,
        default_replication_factor=config.topics.default_replication_factor,
        min_insync_replicas=config.topics.min_insync_replicas,
        share_version=config.own.harness_share_version,
        unclean_leader_election_enable=config.topics.unclean_leader_election_enable,
        auto_leader_rebalance_enable=config.cluster.auto_leader_rebalance_enable,
        leader_imbalance_check_interval_ms=config.cluster.leader_imbalance_check_interval_seconds * 1000,
        broker_settings=frozenset({*kafka_settings("broker"), *COARSER_KEYS, *SETTINGS}),
        group_values=_group_values(config),
        topic_defaults=topic_defaults(config.topics),
        partitions_max=partitions_with_descriptors(),
    )


def _group_values(config: NodeConfig) -> dict[str, int]:
    """Every setting that is the default of a group's setting, or its limit."""
    texts = {**described(config.groups), **described(config.shares)}
    names = {
        key
        for setting in GROUP_SETTINGS.values()
        for key in (setting.broker_key, setting.low_key, setting.high_key)
        if key is not None
    }
    return {key: int(texts[key]) for key in sorted(names) if key in texts}


def snapshot_config(settings: QuorumSettings) -> SnapshotConfig:
    return SnapshotConfig(
        max_record_bytes=settings.metadata_log_max_record_bytes_between_snapshots,
        max_interval_ms=settings.metadata_log_max_snapshot_interval_ms,
        retention_bytes=settings.metadata_max_retention_bytes,
        retention_ms=settings.metadata_max_retention_ms,
    )
