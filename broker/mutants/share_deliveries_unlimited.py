"""A record is offered again however often it was delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.node.features.share_groups.delivery.partition import SharePartition
from broker.node.features.share_groups.delivery.state_batches import DeliveryState

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    patch.set(SharePartition, "_released", lambda self, run: DeliveryState.AVAILABLE)


def is_reached(plan: SeedPlan) -> bool:
    return plan.share_members > 0
