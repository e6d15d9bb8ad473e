"""The leader counts what it sends to a follower as stored there, not what the follower asks next."""

from __future__ import annotations

from typing import Any

from broker.mutants import Patch
from broker.replication import FollowerFetched
from broker.replication.roles import Leader


def apply(patch: Patch) -> None:
    def follower_fetched(self: Leader, event: FollowerFetched, now_ms: int) -> Any:
        log_end_offset = self._replica.log_end_offset
        if event.fetch_offset < log_end_offset:
            event = FollowerFetched(
                replica_id=event.replica_id, fetch_offset=log_end_offset, broker_epoch=event.broker_epoch
            )
        return original(self, event, now_ms)

    original = patch.set(Leader, "follower_fetched", follower_fetched)
