"""What a client library must offer to be a group member, a transactional copier or a member of a share group, in a
process of its own.

Used by one thread. A client of another package offers it by `make_member` (`make_copier`, `make_share_member`) of its
entry point's object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from runlog.records.history import Acknowledged, AcknowledgementKind
from workloads.clients.protocol import Polled, ReceivedRecord

Partition = tuple[str, int]
Positions = Mapping[Partition, int]  # the offset after the last record
GENERATION_UNKNOWN = -1


class CommitRefused(Exception):
    """The group has moved on. This member may not commit its work any more."""


class CopyAborted(Exception):
    """The transaction is aborted. The group's offsets are unchanged, and the consumer is back at them."""


class CopyUnknown(Exception):
    """It is unknown whether the transaction was committed. The producer cannot be used any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSetup:
    bootstrap_servers: str
    topics: tuple[str, ...]
    group_id: str
    properties: Mapping[str, str]
    start: Literal["earliest", "latest"]
    is_auto_commit: bool
    runtime: Mapping[str, str] = field(default_factory=dict)  # as that of ClientSetup


@dataclass(frozen=True, slots=True, kw_only=True)
class CopierSetup:
    """`member` reads. In addition to `transactional_id`, the producer gets Kafka's producer properties."""

    member: MemberSetup
    transactional_id: str
    producer_properties: Mapping[str, str]


class MemberListener(Protocol):
    """The client calls it from within its own methods."""

    def assigned(self, partitions: Sequence[Partition], generation: int) -> None:
        """These partitions were added to those that the member has."""

    def revoked(self, partitions: Sequence[Partition]) -> None: ...

    def committed(self, positions: Positions) -> None:
        """The coordinator has said so."""


class GroupMember(Protocol):
    def connect(self, timeout_s: float) -> None: ...

    def poll(self, timeout_s: float) -> Polled: ...

    def processed(self, positions: Positions) -> None:
        """The application has finished everything before these positions. Auto-commit may commit that."""

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
        """Aborts the transaction, with errors as in `commit`. The next poll begins again at the group's offsets."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSetup:
    """`is_implicit`: share.acknowledgement.mode=implicit."""

    bootstrap_servers: str
    topics: tuple[str, ...]
    group_id: str
    properties: Mapping[str, str]
    is_implicit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePoll:
    """`counts` are the delivery counts of `records`. The broker gave the records to the member at `asked_ns` or
    later."""

    records: Sequence[ReceivedRecord]
    counts: Sequence[int]
    polled_ns: int
    asked_ns: int


class ShareListener(Protocol):
    """The client calls it from within its own methods."""

    def acknowledged(
        self,
        partition: Partition,
        kind: AcknowledgementKind,
        outcome: Acknowledged,
        offsets: Sequence[int],
        reason: str = "",
    ) -> None:
        """The broker has confirmed or refused these acknowledgements, or nobody knows whether they count."""


class ShareMember(Protocol):
    """A member of a share group. With implicit acknowledgement, each poll accepts the records of the one before."""

    def connect(self, timeout_s: float) -> None: ...

    def poll(self, timeout_s: float) -> SharePoll: ...

    def acknowledge(self, record: ReceivedRecord, kind: AcknowledgementKind) -> None:
        """It goes to the broker with the next poll or with `close`."""

    def close(self) -> None:
        """Sends acknowledgements that were made, releases all other records, and leaves the group."""


class ShareLibrary(Protocol):
    def make_share_member(self, setup: ShareSetup, listener: ShareListener) -> ShareMember: ...


class MemberLibrary(Protocol):
    def make_member(self, setup: MemberSetup, listener: MemberListener) -> GroupMember: ...

    def make_copier(self, setup: CopierSetup, listener: MemberListener) -> Copier: ...
