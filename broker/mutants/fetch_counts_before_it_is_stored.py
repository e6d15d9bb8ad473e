"""The leader counts what it sends to a follower as stored there, not what the follower asks next."""

from __future__ import annotations

from typing import Any

from broker.mutants import Patch
from broker.replication import FollowerFetched, PartitionReplica


def apply(patch: Patch) -> None:
    def follower_fetched(self: PartitionReplica, event: FollowerFetched, now_ms: int) -> Any:
        if self.is_leader and event.fetch_offset < self.log_end_offset:
            event = FollowerFetched(
                replica_id=event.replica_id, fetch_offset=self.log_end_offset, broker_epoch=event.broker_epoch
            )
        return original(self, event, now_ms)

    original = patch.set(PartitionReplica, "_follower_fetched", follower_fetched)
