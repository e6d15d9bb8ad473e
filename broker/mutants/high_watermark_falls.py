"""The high watermark also falls when the slowest replica falls back."""

from __future__ import annotations

from broker.mutants import Patch
from broker.replication import Action, HighWatermarkAdvanced
from broker.replication.roles import Leader


def advance_high_watermark(self: Leader, now_ms: int) -> list[Action]:
    replica = self._replica
    if len(replica.isr) < replica.effective_min_insync_replicas:
        return []
    ends = [each.log_end_offset for each in self.followers.values()]
    lowest = max(0, min([replica.log_end_offset, *ends]))
    if lowest == replica.high_watermark:
        return []
    replica.high_watermark = lowest
    return [HighWatermarkAdvanced(high_watermark=lowest), *self.complete_waiting()]


def apply(patch: Patch) -> None:
    patch.set(Leader, "advance_high_watermark", advance_high_watermark)
