"""A snapshot of the metadata leaves out what was configured at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.controller import snapshot
from broker.mutants import Patch

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    patch.set(snapshot, "_configs", lambda image: iter(()))


def is_reached(plan: SeedPlan) -> bool:
    return plan.snapshot_bytes is not None
