"""A log whose topic was deleted while its broker was down stays for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.node.replicas.log_recovery import LogRecovery

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    patch.set(LogRecovery, "discard_strays", lambda self, image: None)


def is_reached(plan: SeedPlan) -> bool:
    return plan.has_aftermath
