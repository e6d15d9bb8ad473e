"""A member of a KIP-848 group gets its partitions without waiting until their owners have let go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinator.groups.consumer_group import ConsumerGroup
from broker.mutants import Patch

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    patch.set(ConsumerGroup, "is_free", lambda self, topic_id, partition: True)


def is_reached(plan: SeedPlan) -> bool:
    return plan.consumer_members > 1
