"""The controller publishes and answers what it has written before a majority has it."""

from __future__ import annotations

from broker.mutants import Patch
from broker.quorum.core import Quorum
from broker.quorum.roles import Leader


def _advance_as_leader(self: Quorum, leader: Leader) -> None:
    if self.log_end_offset > leader.epoch_start_offset:
        self._commit(self.log_end_offset)


def apply(patch: Patch) -> None:
    patch.set(Quorum, "_advance_as_leader", _advance_as_leader)
