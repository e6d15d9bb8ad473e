"""The controller publishes and answers what it has written before a majority has it."""

from __future__ import annotations

from broker.mutants import Patch
from broker.quorum.roles import Leader
from broker.quorum.voter import Voter


def _advance(self: Leader, voter: Voter) -> None:
    if voter.log.end_offset > self.epoch_start_offset:
        voter.commit(voter.log.end_offset)


def apply(patch: Patch) -> None:
    patch.set(Leader, "advance", _advance)
