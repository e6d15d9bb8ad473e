"""The roles of a replica, one class for each. `broker.replication.transitions` says which role may follow which."""

from broker.replication.roles.follower import Follower
from broker.replication.roles.leader import Leader
from broker.replication.roles.role import (
    UNKNOWN_OFFSET,
    FollowerState,
    Replica,
    ReplicaRole,
    ReplicationConfig,
)
from broker.replication.roles.stopped import Stopped

__all__ = [
    "UNKNOWN_OFFSET",
    "Follower",
    "FollowerState",
    "Leader",
    "Replica",
    "ReplicaRole",
    "ReplicationConfig",
    "Stopped",
]
