"""The controller elects replicas whose storage failed as if nothing had been told (against KIP-858)."""

from __future__ import annotations

from collections.abc import Set
from uuid import UUID

from broker.controller import elections, partitions
from broker.controller.image import MetadataImage
from broker.mutants import Patch
from broker.mutants.seed_plan import SeedPlan


def able(image: MetadataImage, may_lead: Set[int], topic_id: UUID, partition: int) -> Set[int]:
    return may_lead


def apply(patch: Patch) -> None:
    for module in (elections, partitions):
        patch.set(module, "able", able)


def is_reached(plan: SeedPlan) -> bool:
    return plan.disk_faults > 0
