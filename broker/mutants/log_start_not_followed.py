"""A follower keeps records that its leader has deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.node.replicas.following import Following

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    patch.set(Following, "follow_log_start", lambda self, hosted, leader_log_start_offset: None)


def is_reached(plan: SeedPlan) -> bool:
    return plan.has_aftermath
