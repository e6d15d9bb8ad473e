"""All partitions that a new image gives a broker are opened in one go, however many they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.node.replicas import image_feed

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    patch.set(image_feed, "PARTITIONS_OPENED_MAX", 1_000_000)


def is_reached(plan: SeedPlan) -> bool:
    return plan.has_aftermath
