"""A new transaction coordinator does not send the markers of what its predecessor had decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.coordinator.runtime import Emit, Loaded
from broker.coordinator.transactions.shard import TransactionShard
from broker.mutants import Patch

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    def loaded(self: TransactionShard, event: Loaded, now_ms: int) -> Any:
        return [action for action in original(self, event, now_ms) if not isinstance(action, Emit)]

    original = patch.set(TransactionShard, "_loaded", loaded)


def is_reached(plan: SeedPlan) -> bool:
    return plan.transactional_producers > 0
