"""A leader of a share partition ends the locks of records after half of their time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.node.features.share_groups.delivery.partition import SharePartition
from broker.node.features.share_groups.delivery.state_batches import StateBatch

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    def tick(self: SharePartition, now_ms: int) -> tuple[StateBatch, ...]:
        ended: tuple[StateBatch, ...] = original(self, now_ms + self.limits.lock_duration_ms // 2)
        return ended

    original = patch.set(SharePartition, "tick", tick)


def is_reached(plan: SeedPlan) -> bool:
    return plan.share_members > 0
