"""What the checker of partitions knows: the batches that it saw, and what is committed. Values and functions on
them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from broker.wire.batch import RawBatch
from broker.wire.records import decode_records

Key = tuple[str, int]


class BatchSeen(NamedTuple):
    base_offset: int
    last_offset: int
    epoch: int
    crc: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    is_control: bool
    is_transactional: bool
    is_commit: bool  # whether a marker commits


def seen(batch: RawBatch) -> BatchSeen:
    header = batch.header
    return BatchSeen(
        header.base_offset,
        header.last_offset,
        header.partition_leader_epoch,
        header.crc,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.last_sequence,
        header.is_control,
        header.is_transactional,
        header.is_control and _is_commit(batch),
    )


def _is_commit(marker: RawBatch) -> bool:
    """Version and type are in the key of its one record."""
    key = decode_records(marker)[0][2]
    return key is not None and int.from_bytes(key[2:4], "big") == 1


@dataclass(slots=True)
class Truth:
    """What is known about one partition, over all brokers."""

    committed: list[BatchSeen] = field(default_factory=list)
    committed_by: list[int] = field(default_factory=list)  # Each batch has the epoch of the leader that committed it.
    sequences: dict[int, tuple[int, int]] = field(default_factory=dict)  # producer id -> (epoch, last sequence)
    leaders: dict[int, int] = field(default_factory=dict)  # leader epoch -> broker
    unclean_epoch: int = -1  # the last leader epoch that began with an unclean election
    is_given_up: bool = False  # no leader of that epoch or a later one was seen yet
    chain: dict[tuple[int, int], tuple[BatchSeen, int]] = field(default_factory=dict)

    @property
    def end_offset(self) -> int:
        return self.committed[-1].last_offset + 1 if self.committed else 0

    def committed_until(self, epoch: int) -> list[BatchSeen]:
        """The batches that the leader of this epoch must hold. A broker may learn late that it is the leader, when
        another one already commits in a later epoch. It does not have to hold what that leader committed."""
        count = len(self.committed)
        while count and self.committed_by[count - 1] > epoch:
            count -= 1
        return self.committed if count == len(self.committed) else self.committed[:count]


class Watched(NamedTuple):
    """The last state of a replica that was seen."""

    leader_epoch: int
    is_leader: bool
    high_watermark: int
    log_end_offset: int
    last_stable_offset: int  # A follower has 0.


def holds(log: list[BatchSeen], committed: list[BatchSeen]) -> bool:
    """Whether the log holds all committed batches. By log matching, the last one proves all before it."""
    return not committed or (len(log) >= len(committed) and log[len(committed) - 1] == committed[-1])


def drop_uncommitted(log: list[BatchSeen], committed: list[BatchSeen]) -> None:
    """Drop the end of the log that differs from what is committed. A follower whose log had another end may drop its
    whole log and begin where its leader's log begins, in one event."""
    while log and len(log) <= len(committed) and log[-1] != committed[len(log) - 1]:
        log.pop()


def name_of(key: Key) -> str:
    return f"{key[0]}-{key[1]}"
