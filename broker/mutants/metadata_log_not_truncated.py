"""A voter keeps its uncommitted entries when a new leader has others."""

from __future__ import annotations

from broker.mutants import Patch
from broker.quorum.log import QuorumLog
from broker.quorum.types import DivergingEpoch


def divergence(self: QuorumLog, *, fetch_offset: int, last_fetched_epoch: int) -> DivergingEpoch | None:
    if fetch_offset <= self.end_offset:
        return None
    return DivergingEpoch(epoch=self.last_epoch, end_offset=self.end_offset)


def apply(patch: Patch) -> None:
    patch.set(QuorumLog, "divergence", divergence)
