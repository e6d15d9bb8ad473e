"""A request may have any number of elements, and the broker looks up all of them before it serves another request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.node.net import connection

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    patch.set(connection, "elements_max", lambda api_key, *, is_peer: 1_000_000)


def is_reached(plan: SeedPlan) -> bool:
    return plan.has_aftermath
