"""Offsets are taken from members of any generation, also from those that the group has given up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinator.groups.commits import OffsetRequests
from broker.mutants import Patch
from broker.wire.errors import ErrorCode

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    patch.set(OffsetRequests, "_commit_problem", lambda self, event: ErrorCode.none)


def is_reached(plan: SeedPlan) -> bool:
    return plan.classic_members + plan.consumer_members > 0
