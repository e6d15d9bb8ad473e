"""Requests of any leader epoch are served (against KIP-320): replaced leaders and followers are not fenced."""

from __future__ import annotations

from broker.mutants import Patch
from broker.replication import PartitionReplica
from broker.wire.errors import ErrorCode


def apply(patch: Patch) -> None:
    patch.set(PartitionReplica, "check_leader_epoch", lambda self, current_leader_epoch: ErrorCode.none)
