"""acks=all is answered as soon as the leader has appended."""

from __future__ import annotations

from broker.mutants import Patch
from broker.replication import Action, AwaitReplication, CompleteProduce
from broker.replication.roles import Leader
from broker.wire.errors import ErrorCode


def await_replication(self: Leader, event: AwaitReplication) -> list[Action]:
    return [CompleteProduce(token=event.token, error_code=ErrorCode.none)]


def apply(patch: Patch) -> None:
    patch.set(Leader, "await_replication", await_replication)
