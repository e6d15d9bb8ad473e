"""The start offset of a share partition passes records whose acknowledgement is not written yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.node.features.share_groups.delivery.runs import Runs

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    def drop(self: Runs) -> None:
        while self._runs and self._runs[0].state.is_final:
            self.start = self._runs.pop(0).last + 1
        original(self)

    original = patch.set(Runs, "drop_final", drop)


def is_reached(plan: SeedPlan) -> bool:
    return plan.share_members > 0
