"""The high watermark is what a majority of the replicas holds, not what all of the ISR hold."""

from __future__ import annotations

from broker.mutants import Patch
from broker.replication import Action, HighWatermarkAdvanced, PartitionReplica, Role


def _advance_high_watermark(self: PartitionReplica, now_ms: int) -> list[Action]:
    if self.role is not Role.LEADER:
        return []
    ends = sorted([self.log_end_offset, *(each.log_end_offset for each in self.followers.values())], reverse=True)
    reached = min(ends[len(ends) // 2], self.log_end_offset)
    if reached <= self.high_watermark:
        return []
    self.high_watermark = reached
    return [HighWatermarkAdvanced(high_watermark=reached), *self._complete_waiting()]


def apply(patch: Patch) -> None:
    patch.set(PartitionReplica, "_advance_high_watermark", _advance_high_watermark)
