"""Replication of one partition: who leads, who is in sync, what is committed. Pure; one core per replica.

    replica = PartitionReplica(config=ReplicationConfig(broker_id=1), high_watermark=from_checkpoint,
                               log_end_offset=from_log)
    actions = replica.handle(event, now_ms)

Events:
- from the metadata image: BecomeLeader, BecomeFollower, BrokersChanged, StopReplica
- on a leader: Appended (its own append), FollowerFetched, FollowerIdles, AwaitReplication (acks=all),
  IsrProposalAnswered
- on a follower: FetchedFromLeader, Truncated
- Tick, when next_deadline_ms() has come

Actions, and what the node does: ProposeIsr (send AlterPartition), HighWatermarkAdvanced (wake the fetchers), IsrChanged
(write to the journal), CompleteProduce (answer the produce).

`epochs` holds the pure rules of truncation by leader epoch (KIP-101, KIP-595), shared by leader and follower.
Tests: tests/broker_replication.
"""

from broker.replication.epochs import EpochEnd, diverging_epoch, truncation_offset
from broker.replication.partition import PartitionReplica
from broker.replication.roles import ReplicationConfig
from broker.replication.transitions import Role
from broker.replication.types import (
    Action,
    Appended,
    AwaitReplication,
    BecomeFollower,
    BecomeLeader,
    BrokersChanged,
    CompleteProduce,
    Event,
    FetchedFromLeader,
    FetchTimes,
    FollowerFetched,
    FollowerIdles,
    HighWatermarkAdvanced,
    IsrChanged,
    IsrProposalAnswered,
    ProposeIsr,
    StopReplica,
    Tick,
    Truncated,
)

__all__ = [
    "Action",
    "Appended",
    "AwaitReplication",
    "BecomeFollower",
    "BecomeLeader",
    "BrokersChanged",
    "CompleteProduce",
    "EpochEnd",
    "Event",
    "FetchTimes",
    "FetchedFromLeader",
    "FollowerFetched",
    "FollowerIdles",
    "HighWatermarkAdvanced",
    "IsrChanged",
    "IsrProposalAnswered",
    "PartitionReplica",
    "ProposeIsr",
    "ReplicationConfig",
    "Role",
    "StopReplica",
    "Tick",
    "Truncated",
    "diverging_epoch",
    "truncation_offset",
]
