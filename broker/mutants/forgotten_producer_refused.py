"""A log treats a producer that it has forgotten as a new one: the producer's next sequence is out of order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.log.producers import ProducerState
from broker.mutants import Patch

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    def forget_idle(self: ProducerState, now_ms: int, expiration_ms: int) -> Any:
        before = self._may_have_forgotten
        count = original(self, now_ms, expiration_ms)
        self._may_have_forgotten = before
        return count

    original = patch.set(ProducerState, "forget_idle", forget_idle)


def is_reached(plan: SeedPlan) -> bool:
    return plan.has_aftermath
