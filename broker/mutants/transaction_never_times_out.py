"""transaction.timeout.ms is accepted, and a transaction whose producer is gone stays open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinator.transactions.shard import TransactionShard
from broker.mutants import Patch

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    patch.set(TransactionShard, "_note_deadline", lambda self, deadline_ms, transactional_id: None)


def is_reached(plan: SeedPlan) -> bool:
    return plan.transactional_producers > 0
