"""acks=all is answered as soon as the leader has appended."""

from __future__ import annotations

from broker.mutants import Patch
from broker.replication import Action, AwaitReplication, CompleteProduce, PartitionReplica
from broker.wire.errors import ErrorCode


def _await_replication(self: PartitionReplica, event: AwaitReplication) -> list[Action]:
    return [CompleteProduce(token=event.token, error_code=ErrorCode.none)]


def apply(patch: Patch) -> None:
    patch.set(PartitionReplica, "_await_replication", _await_replication)
