"""A replica stays eligible to lead when the ISR is large enough again and commits records without it (KIP-966)."""

from __future__ import annotations

from broker.controller import eligible
from broker.controller.image import PartitionState
from broker.mutants import Patch


def apply(patch: Patch) -> None:
    def candidates(state: PartitionState, isr: tuple[int, ...], min_isr: int, lost: int | None) -> tuple[int, ...]:
        kept = set(original(state, isr, len(state.replicas) + 1, lost))
        return tuple(sorted(kept & {*state.elr, *original(state, isr, min_isr, lost)}))

    original = patch.set(eligible, "_eligible", candidates)
