"""The answer to an older proposal of the ISR voids a newer one, whose members then count no more."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.replication import Action, IsrProposalAnswered, PartitionReplica

if TYPE_CHECKING:
    from broker.mutants.settings import Settings


def apply(patch: Patch) -> None:
    def _proposal_answered(self: PartitionReplica, event: IsrProposalAnswered, now_ms: int) -> list[Action]:
        actions: list[Action] = original(self, replace(event, attempt=self.proposal_attempt), now_ms)
        return actions

    original = patch.set(PartitionReplica, "_proposal_answered", _proposal_answered)


def is_reached(settings: Settings) -> bool:
    return settings.has_late_answers
