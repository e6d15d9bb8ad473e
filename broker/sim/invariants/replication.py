"""Invariants of replicas and their logs: what is committed, and who holds it."""

from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant
from broker.sim.partition_truth import BatchSeen, Truth, Watched, holds
from broker.wire.batch import RawBatch


class OneLeaderPerEpoch(Invariant):
    """A leader epoch of a partition has at most one leader."""

    NAME = "one leader per epoch"
    GROUP = Group.REPLICATION

    def check(self, truth: Truth, where: str, node_id: int, epoch: int) -> None:
        known = truth.leaders.setdefault(epoch, node_id)
        if known != node_id:
            self.violated(f"{where}: brokers {known} and {node_id} in epoch {epoch}")


class LogMatching(Invariant):
    """If two replicas have a batch with the same offset and leader epoch, their logs are equal up to it (KIP-101)."""

    NAME = "log matching"
    GROUP = Group.REPLICATION

    def check(self, truth: Truth, node_id: int, where: str, batch: BatchSeen, *, previous_epoch: int) -> None:
        seen = (batch, previous_epoch)
        known = truth.chain.setdefault((batch.base_offset, batch.epoch), seen)
        if known != seen:
            self.violated(
                f"broker {node_id} {where}: offset {batch.base_offset} of leader epoch {batch.epoch} is "
                f"{batch} after epoch {previous_epoch}, elsewhere {known[0]} after epoch {known[1]}"
            )


class EveryBatchInALogIsWhole(Invariant):
    """No broker has a batch in a log whose CRC is wrong."""

    NAME = "every batch in a log is whole"
    GROUP = Group.REPLICATION

    def check(self, node_id: int, where: str, batch: RawBatch) -> None:
        if not batch.is_crc_valid():
            self.violated(f"broker {node_id} {where}: wrong CRC at offset {batch.header.base_offset}")


class CommittedRecordIsNeverLost(Invariant):
    """A leader has all records that were committed in its epoch and before, except those lost by an unclean
    election."""

    NAME = "a committed record is never lost"
    GROUP = Group.REPLICATION

    def check(self, truth: Truth, where: str, node_id: int, epoch: int, *, log: list[BatchSeen]) -> None:
        if epoch > truth.unclean_epoch and not holds(log, truth.committed_until(epoch)):
            self.violated(
                f"broker {node_id} leads {where} in epoch {epoch} with a log up to "
                f"{log[-1].last_offset + 1 if log else 0}, committed was up to {truth.end_offset}"
            )


class CommittedRecordNeverChanges(Invariant):
    """When a leader commits more, its log has the same batches below as those that were committed before."""

    NAME = "a committed record never changes"
    GROUP = Group.REPLICATION

    def check(self, truth: Truth, where: str, node_id: int, epoch: int, *, log: list[BatchSeen]) -> bool:
        """Returns whether the invariant holds."""
        if holds(log, truth.committed):
            return True
        self.violated(
            f"broker {node_id} leads {where} in epoch {epoch} with another batch "
            f"at offset {truth.committed[-1].base_offset}"
        )
        return False


class CommittedMeansOnMinInsyncReplicasBrokers(Invariant):
    """Every committed record is on at least min.insync.replicas brokers, dead or alive."""

    NAME = "committed means on min.insync.replicas brokers"
    GROUP = Group.REPLICATION

    def check(self, where: str, *, end_offset: int, holders: list[int], wanted: int) -> None:
        if len(holders) < wanted:
            self.violated(f"{where} up to {end_offset}: only on {holders}, {wanted} are needed")


class MembersOfTheIsrHoldAllThatIsCommitted(Invariant):
    """Each live member of the ISR holds all that is committed, because it may be elected."""

    NAME = "members of the ISR hold all that is committed"
    GROUP = Group.REPLICATION

    def check(self, truth: Truth, where: str, member: int, isr: tuple[int, ...], *, log: list[BatchSeen]) -> None:
        if not holds(log, truth.committed):
            self.violated(f"{where}: broker {member} in {isr} has not all up to {truth.end_offset}")


class EligibleReplicasHoldAllThatIsCommitted(Invariant):
    """Each live eligible leader replica holds all that is committed, because it may be elected (KIP-966)."""

    NAME = "eligible replicas hold all that is committed"
    GROUP = Group.REPLICATION

    def check(self, truth: Truth, where: str, member: int, elr: tuple[int, ...], *, log: list[BatchSeen]) -> None:
        if not holds(log, truth.committed):
            self.violated(
                f"{where}: committed up to {truth.end_offset}, broker {member} of the ELR {list(elr)} ends earlier"
            )


class ProposedIsrCountsUntilItIsAnswered(Invariant):
    """Until the controller has answered, a leader counts the members of an ISR that it has proposed."""

    NAME = "a proposed ISR counts until it is answered"
    GROUP = Group.REPLICATION


class HighWatermarkNeverFallsWithinAnEpoch(Invariant):
    """The high watermark of a replica does not fall within a leader epoch, except after an unclean election."""

    NAME = "the high watermark never falls within an epoch"
    GROUP = Group.REPLICATION

    def check(self, node_id: int, where: str, before: Watched, now: Watched) -> None:
        """Both states are of the same leader epoch."""
        if before.is_leader == now.is_leader and now.high_watermark < before.high_watermark:
            self.violated(
                f"broker {node_id} {where} epoch {now.leader_epoch}: {before.high_watermark} to {now.high_watermark}"
            )


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


class IdempotenceNoBatchTwice(Invariant):
    """A batch of an idempotent producer is committed once."""

    NAME = "idempotence: no batch twice"
    GROUP = Group.REPLICATION

    def check(self, where: str, batch: BatchSeen, *, known: tuple[int, int] | None, expected: int) -> bool:
        """`known` is the epoch and the last sequence of the producer that are committed.

        Returns whether the invariant holds.
        """
        is_old = known is not None and batch.producer_epoch < known[0]
        if not is_old and batch.base_sequence >= expected:
            return True
        self.violated(
            f"{where} offset {batch.base_offset}: producer {batch.producer_id} epoch {batch.producer_epoch} "
            f"sequence {batch.base_sequence}, the last committed was {known}"
        )
        return False


class IdempotenceNoBatchIsMissing(Invariant):
    """The batches of an idempotent producer are committed without a gap, unless an unclean election caused one."""

    NAME = "idempotence: no batch is missing"
    GROUP = Group.REPLICATION

    def check(self, truth: Truth, where: str, batch: BatchSeen, *, expected: int) -> None:
        if batch.base_sequence > expected and truth.unclean_epoch < 0:
            self.violated(
                f"{where} offset {batch.base_offset}: producer {batch.producer_id} epoch {batch.producer_epoch} "
                f"sequence {batch.base_sequence}, expected {expected}"
            )
