"""A damaged entry of the metadata log is cut with all that follows, as if a crash had torn it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.node.cluster.metadata_store import MetadataStore

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    patch.set(MetadataStore, "_refuse_rot", lambda self, cause: None)


def is_reached(plan: SeedPlan) -> bool:
    return plan.has_aftermath
