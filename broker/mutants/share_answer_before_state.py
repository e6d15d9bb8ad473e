"""A leader of a share partition answers an acknowledgement before the share coordinator has written it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.node.features.share_groups.delivery.state_batches import StateBatch
from broker.node.features.share_groups.live_share import LiveShare, Told
from broker.wire.errors import ErrorCode

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    def write(self: LiveShare, batches: Sequence[StateBatch], told: Told) -> None:
        told(ErrorCode.none, None)
        original(self, batches, lambda error, message: None)

    original = patch.set(LiveShare, "_write", write)


def is_reached(plan: SeedPlan) -> bool:
    return plan.share_members > 0
