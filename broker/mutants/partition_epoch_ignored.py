"""The controller takes an AlterPartition of any leader and partition epoch."""

from __future__ import annotations

from broker.controller import partitions
from broker.mutants import Patch
from broker.wire.errors import ErrorCode


def apply(patch: Patch) -> None:
    patch.set(partitions, "_isr_error", lambda image, broker_id, change, topic_id, state: ErrorCode.none)
