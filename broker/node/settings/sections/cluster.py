"""Settings of the quorum with its metadata log, and of what the controller decides about brokers and topics.

Shorter timeouts notice a failure sooner. They also take a busy host for a dead one sooner, which costs an election.
Shown by tests/broker_node/test_node_config.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.node.settings.sections.section import Problem, setting
from broker.node.settings.values import Address, roles, whole_number


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    node_id: int
    process_roles: str = setting("broker,controller", roles)  # This process always has both.
    controller_quorum_voters: Mapping[int, Address]  # The key is the node id. This node is among them.
    controller_quorum_election_timeout_ms: int = 300  # Kafka: 1000. Candidates wait up to twice this time.
    controller_quorum_fetch_timeout_ms: int = 1_000  # Kafka: 2000. A follower without an answer in it is a candidate.
    controller_quorum_request_timeout_ms: int = 1_000  # Kafka: 2000. It also limits what brokers ask the controller.
    # It limits the entries in one answer, which has at least one. More needs fewer answers and more memory.
    controller_quorum_fetch_max_bytes: int = 1 << 20
    controller_quorum_fetch_snapshot_max_bytes: int = 1 << 20  # in one answer; the same trade
    # More makes snapshots rarer, and the log that a starting node replays longer.
    metadata_log_max_record_bytes_between_snapshots: int = 20 << 20
    metadata_log_max_snapshot_interval_ms: int = 3_600_000  # 0: no snapshot because of time
    # Log and snapshot together may have this much. Above it the next snapshot removes the log before it. Below 0: no
    # limit.
    metadata_max_retention_bytes: int = setting(100 << 20, whole_number)
    metadata_max_retention_ms: int = setting(604_800_000, whole_number)  # the same for the age of the oldest record

    def problem(self) -> Problem | None:
        if self.node_id in self.controller_quorum_voters:
            return None
        key = "controller.quorum.voters"
        return Problem(keys=(key,), text=f"{key}: node.id {self.node_id} is not among the voters")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    broker_rack: str = ""  # empty: the broker is in no rack
    broker_session_timeout_ms: int = 3_000  # Kafka: 9000. Without a heartbeat in it, the broker is fenced.
    broker_heartbeat_interval_ms: int = 250  # Kafka: 2000. Less costs more requests to the controller.
    controlled_shutdown_enable: bool = True  # Leaders move before the broker stops. Then clients see no gap.
    # It is not a setting of Kafka: how long a stop after SIGTERM waits for the controller. More makes a stop longer.
    controlled_shutdown_max_wait_ms: int = 3_000
    auto_create_topics_enable: bool = True  # A mistyped name makes a topic.
    delete_topic_enable: bool = True
    auto_leader_rebalance_enable: bool = True  # Leaders move back to the preferred replica, which costs one retry.
    leader_imbalance_check_interval_seconds: int = 300  # Less moves leaders back sooner after a fail-over.
