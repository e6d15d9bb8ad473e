"""A leader counts by an ISR as soon as the controller has agreed, whatever else the metadata log tells before it."""

from __future__ import annotations

from broker.mutants import Patch
from broker.replication import Action, IsrChanged, IsrProposalAnswered
from broker.replication.roles import Leader
from broker.wire.errors import ErrorCode

_proposal_answered = Leader.proposal_answered


def proposal_answered(self: Leader, event: IsrProposalAnswered, now_ms: int) -> list[Action]:
    is_agreed = event.error_code == ErrorCode.none and self.proposal.is_answered_by(event.attempt)
    proposed = self.proposal.isr
    actions = _proposal_answered(self, event, now_ms)
    if not is_agreed:
        return actions
    replica = self._replica
    self.proposal.overtaken()
    replica.isr, replica.partition_epoch = proposed, replica.partition_epoch + 1
    for follower in self.followers.values():
        follower.end_idling()
    return [IsrChanged(leader_epoch=replica.leader_epoch, isr=proposed), *self.advance_high_watermark(now_ms)]


def apply(patch: Patch) -> None:
    patch.set(Leader, "proposal_answered", proposal_answered)
