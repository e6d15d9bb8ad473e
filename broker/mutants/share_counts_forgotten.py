"""A new leader of a share partition forgets how often the records were delivered that are available again."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.node.features.share_groups.delivery.deliveries import Limits
from broker.node.features.share_groups.delivery.partition import SharePartition
from broker.node.features.share_groups.delivery.state_batches import DeliveryState, StateBatch

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    def begin(
        self: SharePartition, *, start_offset: int, batches: Iterable[StateBatch] = (), limits: Limits | None = None
    ) -> None:
        known = [
            dataclasses.replace(each, delivery_count=0) if each.state == DeliveryState.AVAILABLE else each
            for each in batches
        ]
        original(self, start_offset=start_offset, batches=known, limits=limits)

    original = patch.set(SharePartition, "__init__", begin)


def is_reached(plan: SeedPlan) -> bool:
    return plan.share_members > 0
