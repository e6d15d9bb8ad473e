"""A new leader of the quorum commits entries of earlier epochs before one of its own (Raft, figure 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.quorum.roles import Leader
from broker.quorum.voter import Voter

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def _advance(self: Leader, voter: Voter) -> None:
    voter.commit(self.majority_offset(voter.log.end_offset))


def apply(patch: Patch) -> None:
    patch.set(Leader, "advance", _advance)


def is_reached(plan: SeedPlan) -> bool:
    return plan.directed == "figure eight"
