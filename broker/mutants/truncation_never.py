"""The leader never tells a follower that their logs part (against KIP-101 and KIP-595)."""

from __future__ import annotations

from broker.mutants import Patch
from broker.node.handlers import fetch_reads


def apply(patch: Patch) -> None:
    patch.set(fetch_reads, "diverging_epoch", lambda **where: None)
