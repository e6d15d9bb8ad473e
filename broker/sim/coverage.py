"""Which interesting states a run reached. If no seed of a whole run reaches a state of EXPECTED, the run fails."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from broker.controller import partitions
from broker.coordinator.groups.shard import GroupShard
from broker.coordinator.runtime import CoordinatorAction, Loaded
from broker.coordinator.transactions.metadata import Transaction
from broker.coordinator.transactions.shard import TransactionShard
from broker.coordinator.transactions.types import TransactionState
from broker.mutants import Patch
from broker.node.handlers import api_01_fetch
from broker.node.replicas.fetch_sessions import FetchSession, FetchSessions
from broker.node.replicas.following import Following
from broker.node.replicas.hosted import HostedPartition
from broker.node.replicas.image_feed import ImageFeed
from broker.node.replicas.replica_session import ReplicaSession
from broker.replication import Action, FollowerFetched, FollowerIdles, PartitionReplica
from broker.replication.roles import Leader
from broker.wire.errors import ErrorCode

# state -> what it means. The checker, the journal, the disk or the faults count each of them.
EXPECTED = {
    "truncation": "a follower cut what its new leader does not have",
    "fenced leader epoch": "a request with an old leader epoch was refused",
    "unknown leader epoch": "a request came with an epoch that the leader has not heard of yet",
    "isr of one": "a leader was alone in its ISR",
    "isr shrunk": "a member left an ISR",
    "isr expanded": "a replica joined an ISR",
    "below min.insync.replicas": "an ISR was smaller than min.insync.replicas",
    "not enough replicas": "an acks=all produce was refused for that",
    "duplicate sequence": "a retried batch was recognised",
    "out of order sequence": "a batch came before the one that precedes it",
    "producer epoch bump": "a producer raised its own epoch (KIP-360)",
    "unclean election": "a replica outside of the ISR became leader",
    "eligible replica elected": "nobody was left in the ISR (KIP-966)",
    "last known leader elected": "nobody was left who certainly holds all, after unclean shutdowns",
    "no longer eligible": "a broker registered after an unclean shutdown",
    "eligible again after a clean stop": "a broker registered, and its last life had stopped in order",
    "last one standing lost its power": "and unsynced records with it; the replica led that had left before it",
    "leader elected": "a partition got a leader in a new epoch",
    "two leaders at once": "an old leader did not know yet that it was replaced",
    "controller failover": "another node became the active controller",
    "metadata truncated": "a voter cut entries of the metadata log",
    "snapshot install": "a voter that was behind got the leader's snapshot of the metadata (KIP-630)",
    "snapshot loaded": "a broker began with a snapshot and the entries behind it",
    "broker fenced": "the controller fenced a silent broker",
    "controlled shutdown": "a broker was allowed to stop",
    "log recovered": "a partition's log was opened with records in it",
    "torn tail cut": "recovery cut a damaged tail",
    "clean log trusted": "a log was opened without a scan after a clean stop",
    "unsynced writes lost": "a loss of power took writes that were not synced",
    "torn write": "a loss of power left a part of a write",
    "power lost within an operation": "between a write and its sync",
    "process killed within an operation": "its next life finds what was not synced",
    "disk failed under a partition": "a write, half way, or a sync, read, truncation or open of its log",
    "disk failed under the quorum": "likewise, of its log, its vote or their directory",
    "ended by the storage of the quorum": "the process, and its next life believed the disk",
    "partition offline by a read": "its log could not be read; the others of its leader went on",
    "partition offline by another call": "its log could not be written, synced, cut or opened",
    "partition offline at the start": "its log could not be opened; the broker began without it",
    "coordinator's partition offline": "of the groups' or the transactions' log: another broker coordinates them",
    "leadership handed on": "from a live broker whose replica is offline",
    "offline partition back": "after a restart, with a healed disk",
    "start refused by the disk": "the log of the metadata or the log directory could not be read or opened",
    "segment rolled": "a log has several segments",
    "process killed": "SIGKILL",
    "process paused": "SIGSTOP for a while",
    "power lost": "a host lost power",
    "link cut one way": "from one host to another, not back",
    "host isolated": "no link to or from any other host",
    "connections broken": "resets of established connections",
    "all processes killed": "the whole cluster restarted",
    "preferred leaders asked for": "leadership moves, and no broker fails",
    "reassignment completed": "a partition has other replicas (KIP-455)",
    "reassignment cancelled": "or has those again that it had",
    "leader moved by a reassignment": "its own broker has no part in the target",
    "setting changed at run time": "min.insync.replicas or unclean.leader.election.enable of a topic",
    "outcome unknown": "a producer gave up on a batch that may have been written",
    "fetch of an earlier life": "a follower's fetch came after its broker had registered anew (KIP-903)",
    "requests delayed on their connection": "they arrived after those that came later on new ones",
    "voter died after its vote": "and another stood in the same epoch",
    "old entry on a majority": "an entry of an earlier epoch, which must wait for one of the new (Raft, figure 8)",
    "cut off member left the isr": "a follower that only its leader could not reach",
    "stale leader refused": "an AlterPartition of an old leader or partition epoch",
    "corrupt batch refused": "a Produce with a wrong CRC",
    "transaction committed": "EndTxn was answered",
    "transaction aborted": "by its producer",
    "transaction timed out": "its coordinator aborted it",
    "transaction fenced by a successor": "InitProducerId found it open and aborted it",
    "real producer committed": "the reference client's, with its threads",
    "real producer aborted": "likewise",
    "real producer fenced": "by its successor or its coordinator",
    "real producer killed": "with its transaction open, perhaps",
    "real member assigned": "of the reference client's consumers, with their threads",
    "real member read": "records, with read_committed",
    "real member committed": "and was told so",
    "real member killed": "the group goes on without it",
    "partition revoked from a real member": "another one gets it",
    "producer fenced": "a producer of an old epoch was refused",
    "coordinator fail-over in prepare-commit": "the next coordinator found a decision whose markers may be missing",
    "coordinator fail-over in prepare-abort": "likewise, to abort",
    "aborted records skipped by a reader": "read_committed, by the list of aborted transactions",
    "reader held back by an open transaction": "the last stable offset was below the high watermark",
    "group coordinator fail-over": "another broker took over a group with its offsets",
    "classic member joined": "JoinGroup and SyncGroup",
    "consumer member assigned": "by the coordinator (KIP-848)",
    "partition revoked from a member": "it had to let go first (KIP-848)",
    "rebalance during a fail-over": "the coordinator moved while members joined",
    "offset committed by a member": "and acknowledged",
    "commit of an old generation refused": "of a member that slept past its session",
    "share member assigned": "a member of a share group got partitions (KIP-932)",
    "share member with the client's core assigned": "likewise, and its core planned what it asks",
    "share member fenced": "it slept past its session, and joins again",
    "records delivered to a share member": "by a ShareFetch",
    "records acknowledged by a share member": "and it was told so",
    "acknowledgement of a share member refused": "its lock or the leader was gone, or the write failed",
    "share session refused": "the broker did not know it, or not in this epoch",
    "lock of a record timed out": "another delivery of the record follows",
    "record archived after its last delivery": "it was delivered as often as allowed",
    "leader cut off from the controller only": "it goes on for members of a share group when another one leads",
    "share partition loaded with deliveries": "a new leader goes on with what the coordinator kept",
    "offsets of a share group set anew": "AlterShareGroupOffsets, while some go on reading without being members",
    "follower idled in its fetch session": "its fetches did not name a partition, and counted for it (KIP-227)",
    "partitions left out of an answer": "of a follower's session, which had nothing new",
    "follower fetched without a session": "its leader had no room for one",
    "fetch session refused": "its leader did not know it, or not in this epoch",
    "fetch session begun anew": "after a failure the follower named all its partitions again",
    "partition forgotten in a fetch session": "it is led by another broker now",
    "work left to a thread": "the opening of a log, the removal of one; the loop was free meanwhile",
    "expired producer back": "it went on after every broker had forgotten it, and its leader restarted",
    "segments deleted by retention": "days after they were written",
    "reader reset after retention": "it asked for what is gone, and began anew at the earliest offset",
    "log dropped and begun at the leader's start": "by a follower that was away while its leader's log moved on",
    "records deleted in every replica": "DeleteRecords, heard of by the followers",
    "partitions opened in turns": "of a topic of many: the loop was free in between",
    "request of too many elements refused": "its connection was closed, and nobody waited",
    "stray log removed": "its topic was deleted while the broker was down",
    "swap failed": "a compaction could not put its segment in the place of the old ones; it went on after a restart",
    "ended within a swap": "the process, or the power, while a compaction was on its way",
    "rot named": "a broker ended at its start for a damaged metadata log, and cut nothing",
    "entries of a directory lost": "a loss of power undid what was created, removed or renamed",
    "isr agreed to before the log told it": "its leader waited for the metadata log",
    "record read while uncommitted ones existed": "a consumer was held back by the high watermark",
}
# A run of some thousand seeds reaches each of these states once or never.
RARE = {
    "accepted record delivered by a replaced leader": "it did not know that it was replaced, as in Kafka",
    "answer of an older proposal": "of the ISR, while a newer one was on its way",
    "late marker of version 1": "it ended the next transaction of its producer, as in Kafka (KIP-890)",
}


class Coverage:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def reached(self, state: str, times: int = 1) -> None:
        assert state in EXPECTED or state in RARE, f"{state!r} is not in the table of states"
        self.counts[state] += times

    def merge(self, counts: dict[str, int]) -> None:
        self.counts.update(counts)

    def missing(self) -> list[str]:
        return [state for state in EXPECTED if not self.counts[state]]


@contextlib.contextmanager
def refusals_counted(coverage: Coverage) -> Iterator[None]:
    """Within this context, refusals of partitions are counted. They appear only in the answer to the client."""
    states = {
        ErrorCode.fenced_leader_epoch: "fenced leader epoch",
        ErrorCode.unknown_leader_epoch: "unknown leader epoch",
        ErrorCode.not_enough_replicas: "not enough replicas",
    }

    def count(error: ErrorCode) -> ErrorCode:
        if error in states:
            coverage.reached(states[error])
        return error

    isr_error = partitions.__dict__["_isr_error"]

    def count_isr_error(*values: Any) -> int:
        error: int = isr_error(*values)
        if error in (ErrorCode.fenced_leader_epoch, ErrorCode.invalid_update_version, ErrorCode.invalid_request):
            coverage.reached("stale leader refused")
        return error

    patch = Patch()
    patch.set(partitions, "_isr_error", count_isr_error)
    follower_fetched = Leader.follower_fetched

    def count_earlier_lives(self: Leader, event: FollowerFetched, now_ms: int) -> list[Action]:
        eligible_epochs = self._replica.eligible_epochs
        registered = -1 if eligible_epochs is None else eligible_epochs.get(event.replica_id, -1)
        if 0 <= event.broker_epoch < registered:
            coverage.reached("fetch of an earlier life")
        return follower_fetched(self, event, now_ms)

    patch.set(Leader, "follower_fetched", count_earlier_lives)
    _count_coordinators(coverage, patch)
    _count_storage(coverage, patch)
    _count_fetch_sessions(coverage, patch)
    check_epoch = PartitionReplica.check_leader_epoch
    check_append = PartitionReplica.check_append
    patch.set(
        PartitionReplica,
        "check_leader_epoch",
        lambda self, current_leader_epoch: count(check_epoch(self, current_leader_epoch)),
    )
    patch.set(PartitionReplica, "check_append", lambda self, *, acks: count(check_append(self, acks=acks)))
    try:
        yield
    finally:
        patch.undo()


def _count_storage(coverage: Coverage, patch: Patch) -> None:
    restart_at, tell_on = Following.restart_at, ImageFeed._tell_on

    def count_restart(self: Following, hosted: HostedPartition, offset: int) -> None:
        had_records = hosted.log.log_end_offset > hosted.log.log_start_offset
        restart_at(self, hosted, offset)
        if had_records:
            coverage.reached("log dropped and begun at the leader's start")

    def count_turn(self: ImageFeed) -> None:
        coverage.reached("partitions opened in turns")
        tell_on(self)

    patch.set(Following, "restart_at", count_restart)
    patch.set(ImageFeed, "_tell_on", count_turn)


def _count_fetch_sessions(coverage: Coverage, patch: Patch) -> None:
    """Count states of the followers' fetch sessions. Consumers of the simulation have no fetch sessions."""
    resume, update, open_session = FetchSessions.resume, FetchSession.update, FetchSessions.open
    failed, to_tell = ReplicaSession.failed, api_01_fetch._Fetch._to_tell
    follower_idles = Leader.follower_idles

    def count_resumed(self: FetchSessions, *values: Any, **names: Any) -> Any:
        session, error = resume(self, *values, **names)
        if error is not ErrorCode.none:
            coverage.reached("fetch session refused")
        return session, error

    def count_opened(self: FetchSessions, *values: Any, **names: Any) -> Any:
        session = open_session(self, *values, **names)
        if session is None:
            coverage.reached("follower fetched without a session")
        return session

    def count_forgotten(self: FetchSession, *values: Any) -> Any:
        gone = update(self, *values)
        if gone:
            coverage.reached("partition forgotten in a fetch session")
        return gone

    def count_failed(self: ReplicaSession, *, closes: bool = True) -> None:
        if not self.is_full:
            coverage.reached("fetch session begun anew")
        failed(self, closes=closes)

    def count_left_out(self: Any, session: FetchSession, reads: Any) -> Any:
        told = to_tell(self, session, reads)
        if len(told) < len(session.partitions):
            coverage.reached("partitions left out of an answer")
        return told

    def count_idling(self: Leader, event: FollowerIdles) -> list[Action]:
        actions = follower_idles(self, event)
        follower = self.followers.get(event.replica_id)
        if follower is not None and follower.idle is not None:
            coverage.reached("follower idled in its fetch session")
        return actions

    patch.set(FetchSessions, "resume", count_resumed)
    patch.set(FetchSessions, "open", count_opened)
    patch.set(FetchSession, "update", count_forgotten)
    patch.set(ReplicaSession, "failed", count_failed)
    patch.set(api_01_fetch._Fetch, "_to_tell", count_left_out)
    patch.set(Leader, "follower_idles", count_idling)


def _count_coordinators(coverage: Coverage, patch: Patch) -> None:
    """Count fail-overs of coordinators, and ends of transactions that no client asked for."""
    load_transactions, fence = TransactionShard._loaded, TransactionShard._fence
    handle_group_event = GroupShard.handle

    def loaded(self: TransactionShard, event: Loaded, now_ms: int) -> list[CoordinatorAction]:
        states = {each.state for each in self.transactions()}
        if TransactionState.PREPARE_COMMIT in states:
            coverage.reached("coordinator fail-over in prepare-commit")
        if TransactionState.PREPARE_ABORT in states:
            coverage.reached("coordinator fail-over in prepare-abort")
        return load_transactions(self, event, now_ms)

    def fenced(self: TransactionShard, transaction: Transaction, *, cause: str) -> list[CoordinatorAction]:
        coverage.reached("transaction timed out" if cause == "timeout" else "transaction fenced by a successor")
        return fence(self, transaction, cause=cause)

    def handle(self: GroupShard, event: object, now_ms: int) -> Sequence[CoordinatorAction]:
        if isinstance(event, Loaded) and self.groups:
            coverage.reached("group coordinator fail-over")
        return handle_group_event(self, event, now_ms)

    patch.set(TransactionShard, "_loaded", loaded)
    patch.set(TransactionShard, "_fence", fenced)
    patch.set(GroupShard, "handle", handle)
