"""The share coordinator takes a write of a leader that was replaced."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from broker.coordinator.share_states.shard import NO_EPOCH, ShareStateShard, StateResult, WriteState
from broker.mutants import Patch

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    def write(self: ShareStateShard, event: WriteState, wall_ms: int) -> StateResult:
        result: StateResult = original(self, dataclasses.replace(event, leader_epoch=NO_EPOCH), wall_ms)
        return result

    original = patch.set(ShareStateShard, "_write", write)


def is_reached(plan: SeedPlan) -> bool:
    return plan.share_members > 0
