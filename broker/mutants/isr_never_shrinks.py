"""A follower that no longer fetches stays in the ISR."""

from __future__ import annotations

from broker.mutants import Patch
from broker.replication import PartitionReplica


def apply(patch: Patch) -> None:
    patch.set(PartitionReplica, "_maybe_shrink", lambda self, now_ms: [])
