from __future__ import annotations

import zlib

from broker.quorum.types import LogEntry
from broker.sim.invariants.invariant import Fail, Group, Invariant


class MetadataLogMatching(Invariant):
    """If two metadata logs have an entry with the same offset and epoch, they are equal up to it."""

    NAME = "metadata log matching"
    GROUP = Group.QUORUM

    def __init__(self, fail: Fail) -> None:
        super().__init__(fail)
        # (offset, epoch) -> (epoch of the entry before, number of values, checksum). Logs with the same key must be
        # equal up to there.
        self._entries: dict[tuple[int, int], tuple[int, int, int]] = {}

    def check(self, node_id: int, entry: LogEntry, *, previous_epoch: int) -> None:
        value = (previous_epoch, len(entry.values), zlib.crc32(b"".join(entry.values)))
        if self._entries.setdefault((entry.offset, entry.epoch), value) != value:
            self.violated(f"node {node_id}: offset {entry.offset} of epoch {entry.epoch} differs from another log's")
