"""Coordinators answer as soon as their records are in the leader's log, replicated or not."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from broker.coordinator.runtime import Emit, Ledger, Reply
from broker.mutants import Patch

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    def wait(self: Ledger, action: Reply | Emit, *, deadline_ms: int | None) -> None:
        original(self, dataclasses.replace(action, after=0), deadline_ms=deadline_ms)

    original = patch.set(Ledger, "wait", wait)


def is_reached(plan: SeedPlan) -> bool:
    return plan.transactional_producers + plan.classic_members + plan.consumer_members > 0
