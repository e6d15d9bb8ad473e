"""Consumers get everything that the leader has, committed or not."""

from __future__ import annotations

from typing import Any

from broker.mutants import Patch
from broker.node.handlers.fetch_reads import PartitionReads


def apply(patch: Patch) -> None:
    def read(self: Any, asked: Any, left_bytes: int, *, is_first: bool) -> Any:
        found = original(self, asked, left_bytes, is_first=is_first)
        hosted = None if asked.topic is None else self._services.partitions.get(asked.topic, asked.index)
        if hosted is not None and not found.is_final and asked.offset <= hosted.log.log_end_offset:
            found.records = hosted.log.read(asked.offset, min(asked.max_bytes, left_bytes))
        return found

    original = patch.set(PartitionReads, "read", read)
