"""After a loss of power only the last segment is checked, as if a process had been killed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.log.directory import LogDirectory
from broker.mutants import Patch

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    patch.set(LogDirectory, "_is_same_boot", lambda self: True)


def is_reached(plan: SeedPlan) -> bool:
    return plan.can_lose_power_unsynced and plan.segment_bytes < 1 << 20
