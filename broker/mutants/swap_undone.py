"""Recovery throws away the new segment of a compaction whose swap had begun."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.log import opening
from broker.log.filesystem import FileSystem
from broker.log.recovery import CLEANED_SUFFIX, SWAP_SUFFIX, delete_leftovers
from broker.mutants import Patch

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def _finish_swaps(filesystem: FileSystem, directory: str, **_: Any) -> None:
    delete_leftovers(filesystem, directory, CLEANED_SUFFIX)
    delete_leftovers(filesystem, directory, SWAP_SUFFIX)


def apply(patch: Patch) -> None:
    patch.set(opening, "finish_swaps", _finish_swaps)


def is_reached(plan: SeedPlan) -> bool:
    return plan.has_aftermath
