"""A restarted or truncated log has forgotten what producers appended."""

from __future__ import annotations

from typing import Any

from broker.log.partition_log import PartitionLog
from broker.log.producers import ProducerState
from broker.mutants import Patch
from broker.wire.records import BatchHeader


def apply(patch: Patch) -> None:
    def check(self: ProducerState, header: BatchHeader, *, is_complete: bool = False) -> Any:
        return original(self, header)

    original = patch.set(ProducerState, "check", check)
    patch.set(PartitionLog, "_rebuild_producers", lambda self, *, replay_from=None: self.producers.clear())
