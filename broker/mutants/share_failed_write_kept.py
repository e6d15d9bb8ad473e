"""A leader of a share partition does not undo an acknowledgement whose write failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.sharing.partition import SharePartition

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    def persisted(self: SharePartition, token: int, *, is_written: bool) -> None:
        if is_written:
            original(self, token, is_written=True)

    original = patch.set(SharePartition, "persisted", persisted)


def is_reached(plan: SeedPlan) -> bool:
    return plan.share_members > 0
