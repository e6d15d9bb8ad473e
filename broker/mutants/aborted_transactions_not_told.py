"""Fetch does not tell readers which transactions were aborted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.log.partition_log import PartitionLog
from broker.mutants import Patch

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    patch.set(PartitionLog, "aborted_transactions", lambda self, from_offset, upper_bound: [])


def is_reached(plan: SeedPlan) -> bool:
    return plan.transactional_producers > 0
