from __future__ import annotations

import zlib

from broker.quorum.types import LogEntry
from broker.sim.invariants.invariant import Fail, Group, Invariant


class MetadataLogMatching(Invariant):
    """Two metadata logs that have an entry of the same offset and epoch are equal up to it."""

    NAME = "metadata log matching"
    GROUP = Group.QUORUM

    def __init__(self, fail: Fail) -> None:
        super().__init__(fail)
        # (offset, epoch) -> (epoch of the entry before, number of values, checksum): equal keys must mean equal logs up
        # to there.
        self._entries: dict[tuple[int, int], tuple[int, int, int]] = {}

    def check(self, node_id: int, entry: LogEntry, *, previous_epoch: int) -> None:
        value = (previous_epoch, len(entry.values), zlib.crc32(b"".join(entry.values)))
        if self._entries.setdefault((entry.offset, entry.epoch), value) != value:
            self.violated(f"node {node_id}: offset {entry.offset} of epoch {entry.epoch} differs from another log's")
