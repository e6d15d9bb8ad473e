"""Settings of the controller, with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    node_id: int
    broker_session_timeout_ms: int = 9000  # broker.session.timeout.ms
    num_partitions: int = 1  # num.partitions
    default_replication_factor: int = 1  # default.replication.factor
    min_insync_replicas: int = 1  # min.insync.replicas; unused until KIP-966 is here
    unclean_leader_election_enable: bool = False  # unclean.leader.election.enable of the broker; topics may override
