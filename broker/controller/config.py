"""Settings of the controller, with Kafka's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.kafka_settings import kafka_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    node_id: int
    broker_session_timeout_ms: int = 9000  # broker.session.timeout.ms
    num_partitions: int = 1  # num.partitions
    default_replication_factor: int = 1  # default.replication.factor
    min_insync_replicas: int = 1  # min.insync.replicas of a new cluster with eligible leader replicas (KIP-966)
    eligible_leader_replicas_version: int = 1  # the level of this feature in a new cluster; 0: without it
    share_version: int = 1  # the level of this feature in a new cluster; 0: without share groups (KIP-932)
    unclean_leader_election_enable: bool = False  # unclean.leader.election.enable of the broker; topics may override
    auto_leader_rebalance_enable: bool = True  # auto.leader.rebalance.enable
    leader_imbalance_check_interval_ms: int = 300_000  # leader.imbalance.check.interval.seconds
    # The names of all settings of a broker. Any other name that is set on a broker is kept without effect, as in Kafka.
    broker_settings: frozenset[str] = field(default_factory=lambda: frozenset(kafka_settings("broker")))
    group_values: Mapping[str, int] = field(default_factory=dict)  # broker settings that group settings depend on
    topic_defaults: Mapping[str, str] = field(default_factory=dict)  # values without an override, by setting
    partitions_max: int = 1_000_000  # in the cluster; a broker may hold all of them, with open files for each
