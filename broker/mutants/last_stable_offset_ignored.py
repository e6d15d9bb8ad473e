"""Readers with read_committed get everything below the high watermark, also of undecided transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.log.partition_log import PartitionLog
from broker.mutants import Patch

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    patch.set(PartitionLog, "last_stable_offset", lambda self, high_watermark: high_watermark)


def is_reached(plan: SeedPlan) -> bool:
    return plan.transactional_producers > 0
