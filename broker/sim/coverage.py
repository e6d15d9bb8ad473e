"""Which interesting states a run reached. A state of EXPECTED that no seed of a whole run reaches fails that run."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

from broker.mutants import Patch
from broker.replication import PartitionReplica
from broker.wire.errors import ErrorCode

# state -> what it means. Every one is counted by the checker, the journal, the disk or the faults.
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
    "leader elected": "a partition got a leader in a new epoch",
    "two leaders at once": "an old leader did not know yet that it was replaced",
    "controller failover": "another node became the active controller",
    "metadata truncated": "a voter cut entries of the metadata log",
    "broker fenced": "the controller fenced a silent broker",
    "controlled shutdown": "a broker was allowed to stop",
    "log recovered": "a partition's log was opened with records in it",
    "torn tail cut": "recovery cut a damaged tail",
    "clean log trusted": "a log was opened without a scan after a clean stop",
    "unsynced writes lost": "a loss of power took writes that were not synced",
    "torn write": "a loss of power left a part of a write",
    "power lost within an operation": "between a write and its sync",
    "disk write failed": "an append failed half way",
    "segment rolled": "a log has several segments",
    "process killed": "SIGKILL",
    "process paused": "SIGSTOP for a while",
    "power lost": "a host lost power",
    "link cut one way": "from one host to another, not back",
    "host isolated": "no link to or from any other host",
    "connections broken": "resets of established connections",
    "all processes killed": "the whole cluster restarted",
    "setting changed at run time": "min.insync.replicas or unclean.leader.election.enable of a topic",
    "outcome unknown": "a producer gave up on a batch that may have been written",
    "corrupt batch refused": "a Produce with a wrong CRC",
    "record read while uncommitted ones existed": "a consumer was held back by the high watermark",
}


class Coverage:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def reached(self, state: str, times: int = 1) -> None:
        assert state in EXPECTED, f"{state!r} is not in the table of states"
        self.counts[state] += times

    def merge(self, counts: dict[str, int]) -> None:
        self.counts.update(counts)

    def missing(self) -> list[str]:
        return [state for state in EXPECTED if not self.counts[state]]


@contextlib.contextmanager
def refusals_counted(coverage: Coverage) -> Iterator[None]:
    """While this lasts, what partitions refuse is counted: nobody is told of it but the one who asked."""
    states = {
        ErrorCode.fenced_leader_epoch: "fenced leader epoch",
        ErrorCode.unknown_leader_epoch: "unknown leader epoch",
        ErrorCode.not_enough_replicas: "not enough replicas",
    }

    def count(error: ErrorCode) -> ErrorCode:
        if error in states:
            coverage.reached(states[error])
        return error

    patch = Patch()
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
