"""A producer that the leader does not know may begin with any sequence, as in Kafka."""

from __future__ import annotations

from typing import Any

from broker.log.producers import ProducerState
from broker.mutants import Patch
from broker.wire.records import BatchHeader


def apply(patch: Patch) -> None:
    def check(self: ProducerState, header: BatchHeader, *, is_complete: bool = False) -> Any:
        return original(self, header)

    original = patch.set(ProducerState, "check", check)
