"""The high watermark is what a majority of the replicas holds, not what all of the ISR hold."""

from __future__ import annotations

from broker.mutants import Patch
from broker.replication import Action, HighWatermarkAdvanced
from broker.replication.roles import Leader


def advance_high_watermark(self: Leader, now_ms: int) -> list[Action]:
    replica = self._replica
    ends = sorted([replica.log_end_offset, *(each.log_end_offset for each in self.followers.values())], reverse=True)
    reached = min(ends[len(ends) // 2], replica.log_end_offset)
    if reached <= replica.high_watermark:
        return []
    replica.high_watermark = reached
    return [HighWatermarkAdvanced(high_watermark=reached), *self.complete_waiting()]


def apply(patch: Patch) -> None:
    patch.set(Leader, "advance_high_watermark", advance_high_watermark)
