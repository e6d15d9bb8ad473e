"""A follower that no longer fetches stays in the ISR."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.replication.roles import Leader

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    patch.set(Leader, "_maybe_shrink", lambda self, now_ms: [])


def is_reached(plan: SeedPlan) -> bool:
    return plan.has_lonely_follower
