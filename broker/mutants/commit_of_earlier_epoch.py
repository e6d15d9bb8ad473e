"""A new leader of the quorum commits entries of earlier epochs before one of its own (Raft, figure 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.quorum.core import Quorum
from broker.quorum.roles import Leader

if TYPE_CHECKING:
    from broker.mutants.settings import Settings


def _advance_as_leader(self: Quorum, leader: Leader) -> None:
    self._commit(leader.majority_offset(self.log_end_offset))


def apply(patch: Patch) -> None:
    patch.set(Quorum, "_advance_as_leader", _advance_as_leader)


def is_reached(settings: Settings) -> bool:
    return settings.directed == "figure eight"
