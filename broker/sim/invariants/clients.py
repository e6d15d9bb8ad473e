"""Invariants of what producers and consumers are told."""

from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant
from broker.sim.partition_truth import BatchSeen
from broker.wire.batch import BatchHeader


class AcknowledgedMeansCommitted(Invariant):
    """A record that was acknowledged with acks=all is committed."""

    NAME = "acknowledged means committed"
    GROUP = Group.CLIENTS

    def check(self, where: str, offset: int, *, committed_end: int) -> None:
        if offset >= committed_end:
            self.violated(f"{where} offset {offset} acknowledged with acks=all, committed up to {committed_end}")


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


class CommittedOffsetIsNeverOutOfRange(Invariant):
    """If a reader names the leader epoch, the leader does not say that a committed offset is out of range (KIP-320)."""

    # A follower of that epoch may say so (KIP-392), because it may not have the records yet. The reader then goes to
    # the leader.
    NAME = "a committed offset is never out of range"
    GROUP = Group.CLIENTS


class OffsetsOfAPartitionAscend(Invariant):
    """A consumer gets the records of a partition in the order of their offsets."""

    NAME = "offsets of a partition ascend"
    GROUP = Group.CLIENTS

    def check(self, name: str, index: int, offset: int, *, next_offset: int) -> None:
        if offset < next_offset:
            self.violated(f"{name}: {index} at {offset} after {next_offset}")


class DamagedBatchIsRefused(Invariant):
    """No broker accepts a batch whose CRC is wrong."""

    NAME = "a damaged batch is refused"
    GROUP = Group.CLIENTS


class ClientDoesNotFail(Invariant):
    """No thread of a reference client ends with an exception."""

    NAME = "a client does not fail"
    GROUP = Group.CLIENTS

    def check(self, name: str, failure: BaseException | None) -> None:
        if failure is not None:
            self.violated(f"{name}: {failure!r}")
