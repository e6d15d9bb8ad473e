"""Records are committed whatever the size of the ISR."""

from __future__ import annotations

from broker.mutants import Patch
from broker.replication import PartitionReplica


def apply(patch: Patch) -> None:
    patch.set(PartitionReplica, "effective_min_insync_replicas", property(lambda self: 1))
