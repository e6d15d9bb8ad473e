"""The share coordinator prunes its log up to the end, also the records that a state is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.node.features.share_groups.states.shard import ShareStateShard

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    def redundant(self: ShareStateShard, end_offset: int) -> int:
        return end_offset

    patch.set(ShareStateShard, "redundant_offset", redundant)


def is_reached(plan: SeedPlan) -> bool:
    return plan.share_members > 0
