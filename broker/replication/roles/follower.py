"""A replica that fetches from the leader of its epoch, if there is one."""

from __future__ import annotations

from typing import ClassVar

from broker.replication.roles.role import FollowerState, Replica, ReplicaRole
from broker.replication.transitions import Role
from broker.replication.types import Action, FetchedFromLeader, HighWatermarkAdvanced, Truncated


class Follower(ReplicaRole):
    """It fetches from the leader of its leader epoch, if there is one. Its high watermark is the leader's, but at most
    its own log end offset.
    """

    NAME: ClassVar = Role.FOLLOWER

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self.followers: dict[int, FollowerState] = {}

    def fetched_from_leader(self, event: FetchedFromLeader) -> list[Action]:
        replica = self._replica
        if event.leader_epoch != replica.leader_epoch:
            return []
        assert event.log_end_offset >= replica.log_end_offset, "a follower's log shrinks by Truncated only"
        replica.log_end_offset = event.log_end_offset
        reached = min(event.leader_high_watermark, replica.log_end_offset)
        if reached <= replica.high_watermark:
            return []
        replica.high_watermark = reached
        return [HighWatermarkAdvanced(high_watermark=reached)]

    def truncated(self, event: Truncated) -> list[Action]:
        return truncate(self._replica, event)


def truncate(replica: Replica, event: Truncated) -> list[Action]:
    replica.log_end_offset = event.log_end_offset
    replica.high_watermark = min(replica.high_watermark, replica.log_end_offset)
    return []
