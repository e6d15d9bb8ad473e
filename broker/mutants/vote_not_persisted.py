"""The vote is only remembered in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.node.cluster.metadata_store import MetadataStore

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    patch.set(MetadataStore, "persist_state", lambda self, state: None)


def is_reached(plan: SeedPlan) -> bool:
    return plan.directed == "crash after vote"
