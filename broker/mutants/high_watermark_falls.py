"""The high watermark follows the slowest replica down as well."""

from __future__ import annotations

from broker.mutants import Patch
from broker.replication import Action, HighWatermarkAdvanced, PartitionReplica, Role


def _advance_high_watermark(self: PartitionReplica, now_ms: int) -> list[Action]:
    if self.role is not Role.LEADER or len(self.isr) < self.effective_min_insync_replicas:
        return []
    ends = [each.log_end_offset for each in self.followers.values()]
    lowest = max(0, min([self.log_end_offset, *ends]))
    if lowest == self.high_watermark:
        return []
    self.high_watermark = lowest
    return [HighWatermarkAdvanced(high_watermark=lowest), *self._complete_waiting()]


def apply(patch: Patch) -> None:
    patch.set(PartitionReplica, "_advance_high_watermark", _advance_high_watermark)
