"""A voter goes on after an error of its disk, with a vote or entries in memory that were not written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.node.cluster.metadata import MetadataHost

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def _fail(self: MetadataHost, doing: str, error: Exception) -> None:
    self._logger.warning("swallowed", doing=doing, cause=repr(error))  # the rest of the actions is not done
    self._schedule()


def apply(patch: Patch) -> None:
    patch.set(MetadataHost, "_fail", _fail)


def is_reached(plan: SeedPlan) -> bool:
    return plan.disk_faults > 0
