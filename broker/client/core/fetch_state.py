"""The state of one partition in the consumer, and the values that go into and out of its fetcher."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from broker.client.core.metadata import NO_LEADER, UNKNOWN_EPOCH
from broker.client.core.positions import EpochChain

EARLIEST = -2  # special timestamps of ListOffsets
LATEST = -1
# It is not part of the protocol. The shell replaces it by a time, because only the shell has the wall clock.
BY_DURATION = -(2**63)


class ConsumerRecord(NamedTuple):
    """It is a named tuple, because one is made for each record."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """The part of an answer for one partition. `records` must stay valid until `on_answer` returns."""

    error_code: int = 0
    records: bytes | memoryview = b""
    aborted: tuple[tuple[int, int], ...] = ()  # (producer id, first offset) of transactions that reach into `records`
    preferred_read_replica: int = NO_LEADER  # the leader sends this consumer to a follower (KIP-392)
    held_back_ms: int = 0  # the client is over its quota: it gets nothing before it has waited so long (KIP-219)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPosition:
    offset: int
    leader_epoch: int  # the leader epoch that the consumer knows; a leader with another epoch refuses the fetch


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """A question to the leader of `leader_epoch`: where does `offset_epoch` end? `offset_epoch` is the epoch of the
    record before `offset`."""

    offset: int
    offset_epoch: int
    leader_epoch: int


class ReadReplica(NamedTuple):
    """A follower that the leader of `leader_epoch` named. After `until_ms` the leader is asked again: another replica
    may be nearer by then."""

    node: int
    leader_epoch: int
    until_ms: int


class PartitionState:
    """Invariant: `position` is the offset of the next record that `take` returns, and `fetch_offset` the offset of the
    next record to fetch."""

    __slots__ = (
        "attempts",
        "awaits_committed",
        "epochs",
        "fetch_offset",
        "not_before_ms",
        "position",
        "read_replica",
        "records",
        "reset_to",
        "validated_epoch",
    )

    def __init__(self) -> None:
        self.position: int | None = None
        self.fetch_offset = 0
        self.reset_to: int | None = None
        self.records: deque[ConsumerRecord] = deque()
        self.not_before_ms = 0
        self.attempts = 0
        self.awaits_committed = False
        self.read_replica: ReadReplica | None = None  # None: records come from the leader
        self.epochs = EpochChain()
        # epoch of the leader that confirmed the position, or had no need to confirm it
        self.validated_epoch = UNKNOWN_EPOCH

    def stand_at(self, offset: int) -> None:
        self.position = self.fetch_offset = offset
        self.reset_to = None
        self.awaits_committed = False
        self.records.clear()
        self.validated_epoch = UNKNOWN_EPOCH
