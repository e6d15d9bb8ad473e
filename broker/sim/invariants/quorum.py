"""Invariants of the metadata quorum, its log, and what the controller decides."""

from __future__ import annotations

import zlib
from collections.abc import Sequence, Set

from broker.controller.image import NO_LEADER, MetadataImage, PartitionState
from broker.quorum.types import LogEntry
from broker.sim.invariants.invariant import Fail, Group, Invariant


class OneControllerPerEpoch(Invariant):
    """An epoch of the metadata quorum has at most one leader."""

    NAME = "one controller per epoch"
    GROUP = Group.QUORUM

    def __init__(self, fail: Fail) -> None:
        super().__init__(fail)
        self._leaders: dict[int, int] = {}  # epoch -> node

    def leads(self, node_id: int, epoch: int) -> bool:
        """True if no leader of this epoch was seen before."""
        if epoch not in self._leaders:
            self._leaders[epoch] = node_id
            return True
        known = self._leaders[epoch]
        if known != node_id:
            self.violated(f"nodes {known} and {node_id} both lead epoch {epoch}")
        return False


class OneVotePerEpoch(Invariant):
    """A voter gives only one vote in an epoch, whether the vote is on its disk or only in memory."""

    NAME = "one vote per epoch"
    GROUP = Group.QUORUM

    def __init__(self, fail: Fail) -> None:
        super().__init__(fail)
        self._votes: dict[tuple[int, int], int] = {}  # (voter, epoch) -> candidate

    def voted(self, voter: int, epoch: int, candidate: int) -> bool:
        """True if this vote was not seen before."""
        earlier = self._votes.get((voter, epoch))
        if earlier is None:
            self._votes[(voter, epoch)] = candidate
        elif earlier != candidate:
            self.violated(f"voter {voter} voted for {earlier} and for {candidate} in epoch {epoch}")
        return earlier is None


class WhatAVoterTellsIsOnItsDisk(Invariant):
    """When a voter sends a message, the epoch, the vote and the log that the message mentions are on its disk."""

    NAME = "what a voter tells is on its disk"
    GROUP = Group.QUORUM


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


class EqualOffsetsMeanEqualImages(Invariant):
    """Two brokers with the metadata up to the same offset have the same image, whether it came from entries or from a
    snapshot.
    """

    NAME = "equal offsets mean equal images"
    GROUP = Group.QUORUM

    def check(self, node_id: int, image: MetadataImage, *, expected: MetadataImage | None) -> None:
        """`expected` is the image that the committed entries up to that offset give. None if there are no such
        entries."""
        if expected != image:
            self.violated(f"node {node_id} at offset {image.offset} has {image}, the entries say {expected}")


class SnapshotHoldsCommittedEntriesOnly(Invariant):
    """No node puts an entry of the metadata log into a snapshot before it is committed."""

    NAME = "a snapshot holds committed entries only"
    GROUP = Group.QUORUM

    def check(self, node_id: int, *, dropped: int, committed: int) -> None:
        """`dropped` is the end offset of what the snapshot stands for, `committed` that of what is committed."""
        if dropped > committed:
            self.violated(f"node {node_id} has dropped the log up to {dropped}, it is committed up to {committed}")


class CommittedMetadataIsNeverLost(Invariant):
    """A node that begins to lead an epoch of the quorum has all entries that earlier epochs committed."""

    NAME = "committed metadata is never lost"
    GROUP = Group.QUORUM

    def check(self, node_id: int, epoch: int, *, log: Sequence[LogEntry], committed: Sequence[LogEntry]) -> None:
        if log[: len(committed)] != committed:
            self.violated(f"node {node_id} leads epoch {epoch} without all {len(committed)} entries committed before")


class CommittedMetadataIsNeverChanged(Invariant):
    """If two nodes know the same offset as committed, they have the same entry there."""

    NAME = "committed metadata is never changed"
    GROUP = Group.QUORUM

    def check(self, node_id: int, *, known: int, log: Sequence[LogEntry], committed: Sequence[LogEntry]) -> None:
        """`known`: how many entries of its log the node knows as committed."""
        known = min(known, len(committed))
        if known and log[known - 1] != committed[known - 1]:
            self.violated(f"node {node_id} has committed another entry at offset {log[known - 1].offset}")


class QuorumHighWatermarkNeverFalls(Invariant):
    """The high watermark of the metadata log does not fall while the process of a node runs."""

    NAME = "quorum high watermark never falls"
    GROUP = Group.QUORUM

    def check(self, node_id: int, *, before: int, now: int) -> None:
        if now < before:
            self.violated(f"node {node_id}: {before} to {now}")


class LeaderEpochsOnlyGrow(Invariant):
    """The controller never gives a partition an older leader epoch."""

    NAME = "leader epochs only grow"
    GROUP = Group.QUORUM

    def check(self, where: str, was: PartitionState, now: PartitionState) -> None:
        if now.leader_epoch < was.leader_epoch:
            self.violated(f"{where}: {was.leader_epoch} to {now.leader_epoch}")


class NewLeaderHasANewEpoch(Invariant):
    """When the controller changes the leader of a partition, it raises the leader epoch."""

    NAME = "a new leader has a new epoch"
    GROUP = Group.QUORUM

    def check(self, where: str, was: PartitionState, now: PartitionState) -> None:
        if now.leader not in (NO_LEADER, was.leader) and now.leader_epoch == was.leader_epoch:
            self.violated(f"{where}: {was.leader} to {now.leader}")


class LeaderIsInItsIsr(Invariant):
    """The controller names no leader that is not in the ISR."""

    NAME = "the leader is in its ISR"
    GROUP = Group.QUORUM

    def check(self, where: str, now: PartitionState) -> None:
        if now.leader != NO_LEADER and now.leader not in now.isr:
            self.violated(f"{where}: leader {now.leader}, ISR {now.isr}")


class NoUncleanElectionUnlessAllowed(Invariant):
    """The controller elects a replica that may lack committed records only if the topic allows it."""

    NAME = "no unclean election unless allowed"
    GROUP = Group.QUORUM

    def check(self, where: str, was: PartitionState, now: PartitionState, *, is_allowed: bool) -> None:
        """Check the election of a leader that was neither in the ISR, nor eligible, nor the last known leader."""
        if not is_allowed:
            self.violated(f"{where}: {now.leader} was not in the ISR {was.isr}, nor eligible {was.elr}")


class ReplicaThatMayHaveLostRecordsIsNotEligible(Invariant):
    """A broker that registered after an unclean shutdown is in no ISR and is not an eligible leader replica until a
    leader has brought it into the ISR again or it was elected itself (KIP-966).
    """

    NAME = "a replica that may have lost records is not eligible"
    GROUP = Group.QUORUM

    def check(self, where: str, now: PartitionState, *, doubtful: Set[int]) -> None:
        """`doubtful`: brokers that registered after an unclean shutdown, and that no leader has brought into the ISR
        since."""
        found = sorted(doubtful & {*now.isr, *now.elr})
        if found:
            self.violated(f"{where}: {found} shut down uncleanly; ISR {now.isr}, eligible {now.elr}")


class ReassignmentEndsWithItsTargetInSync(Invariant):
    """Replicas leave a partition only with a new leader epoch, and only if all that stay are in the ISR or the
    reassignment is cancelled.
    """

    NAME = "a reassignment ends with its target in sync"
    GROUP = Group.QUORUM

    def check(self, where: str, was: PartitionState, now: PartitionState) -> None:
        left = set(was.replicas) - set(now.replicas)
        if not left:
            return
        if now.leader_epoch <= was.leader_epoch:
            self.violated(f"{where}: {sorted(left)} left within leader epoch {was.leader_epoch}")
        is_cancelled = was.is_reassigning and left == set(was.adding)
        if not is_cancelled and not set(now.replicas) <= set(now.isr):
            self.violated(f"{where}: {sorted(left)} left, of {now.replicas} only {now.isr} are in sync; before: {was}")
