from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant
from broker.sim.partition_truth import BatchSeen


class WhatAReplicaHasStoredIsThereInItsNextLife(Invariant):
    """With flush.messages=1 the log holds, after a restart of the broker, all that it had stored before."""

    NAME = "what a replica has stored is there in its next life"
    GROUP = Group.REPLICATION

    def check(
        self, node_id: int, where: str, *, log: list[BatchSeen], stored: tuple[int, BatchSeen], log_end_offset: int
    ) -> None:
        """`stored`: the number of batches before the restart, and the last of them."""
        count, last = stored
        if len(log) < count or log[count - 1] != last:
            self.violated(
                f"broker {node_id} {where}: the log ends at {log_end_offset}, it had been synced "
                f"up to {last.last_offset + 1}"
            )
