"""Offsets that are part of a transaction count before it commits, and if it aborts as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinator.groups.shard import GroupShard
from broker.mutants import Patch

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    def apply_record(self: GroupShard, record: object, *, producer_id: int = -1) -> None:
        original(self, record)

    original = patch.set(GroupShard, "apply", apply_record)


def is_reached(plan: SeedPlan) -> bool:
    return plan.transactional_producers > 0
