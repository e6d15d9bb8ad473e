"""What a client library must offer to be a group member, or a transactional copier, in a process of its own.

Used by one thread. A client of others offers it by `make_member` (and `make_copier`) of its entry point's object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from workloads.clients.protocol import Polled, ReceivedRecord

Partition = tuple[str, int]
Positions = Mapping[Partition, int]  # the offset after the last record
GENERATION_UNKNOWN = -1


class CommitRefused(Exception):
    """The group has moved on: this member may not commit what it did any more."""


class CopyAborted(Exception):
    """The transaction is aborted; the group's offsets stand where they stood, and so does the consumer again."""


class CopyUnknown(Exception):
    """Whether the transaction was committed is not known; the producer is of no more use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSetup:
    bootstrap_servers: str
    topics: tuple[str, ...]
    group_id: str
    properties: Mapping[str, str]
    start: Literal["earliest", "latest"]
    is_auto_commit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CopierSetup:
    """`member` reads; what the producer is told besides `transactional_id` are Kafka's producer properties."""

    member: MemberSetup
    transactional_id: str
    producer_properties: Mapping[str, str]


class MemberListener(Protocol):
    """Told by the client from within its own calls."""

    def assigned(self, partitions: Sequence[Partition], generation: int) -> None:
        """These were added to what the member has."""

    def revoked(self, partitions: Sequence[Partition]) -> None: ...

    def committed(self, positions: Positions) -> None:
        """The coordinator has said so."""


class GroupMember(Protocol):
    def connect(self, timeout_s: float) -> None: ...

    def poll(self, timeout_s: float) -> Polled: ...

    def processed(self, positions: Positions) -> None:
        """The application is done with what lies before these: what auto-commit may commit."""

    def commit(self, positions: Positions) -> None:
        """Waits for the coordinator. CommitRefused when a rebalance came between."""

    def close(self) -> None:
        """Leave the group."""


class Copier(Protocol):
    def connect(self, timeout_s: float) -> None: ...

    def poll(self, timeout_s: float) -> Polled: ...

    def begin(self) -> None: ...

    def send(self, topic: str, record: ReceivedRecord, header: bytes) -> None:
        """To the record's own partition of `topic`, with a header `copy`. Raises as `commit` does."""

    def commit(self, positions: Positions) -> None:
        """Offsets and records at once. CopyAborted, or CopyUnknown: then only a new copier can go on."""

    def abort(self) -> None:
        """As `commit`; the next poll begins again at the group's offsets."""

    def close(self) -> None: ...


class MemberLibrary(Protocol):
    def make_member(self, setup: MemberSetup, listener: MemberListener) -> GroupMember: ...

    def make_copier(self, setup: CopierSetup, listener: MemberListener) -> Copier: ...
