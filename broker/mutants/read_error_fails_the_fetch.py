"""A log that cannot be read fails the whole Fetch request, with all the partitions in it."""

from __future__ import annotations

from broker.mutants import Patch
from broker.mutants.seed_plan import SeedPlan
from broker.node.handlers import fetch_reads


def apply(patch: Patch) -> None:
    patch.set(fetch_reads, "STORAGE_ERRORS", ())


def is_reached(plan: SeedPlan) -> bool:
    return plan.disk_faults > 0
