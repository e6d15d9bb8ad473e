from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant
from broker.sim.partition_truth import BatchSeen
from broker.wire.batch import BatchHeader


class ConsumersReadCommittedRecordsOnly(Invariant):
    """A consumer gets no record that is not committed."""

    NAME = "consumers read committed records only"
    GROUP = Group.CLIENTS

    def check(self, where: str, node_id: int, header: BatchHeader, known: BatchSeen | None) -> bool:
        """`known` is the committed batch at that offset. Returns whether the invariant holds."""
        if known is not None and (known.crc, known.epoch) == (header.crc, header.partition_leader_epoch):
            return True
        self.violated(
            f"{where}: broker {node_id} gave out offset {header.base_offset} of leader epoch "
            f"{header.partition_leader_epoch}; committed there: {known}"
        )
        return False
