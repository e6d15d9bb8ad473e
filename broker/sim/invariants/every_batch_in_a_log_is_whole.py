from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant
from broker.wire.batch import RawBatch


class EveryBatchInALogIsWhole(Invariant):
    """No broker has a batch in a log whose CRC is wrong."""

    NAME = "every batch in a log is whole"
    GROUP = Group.REPLICATION

    def check(self, node_id: int, where: str, batch: RawBatch) -> None:
        if not batch.is_crc_valid():
            self.violated(f"broker {node_id} {where}: wrong CRC at offset {batch.header.base_offset}")
