"""Lines of members/<member>-<n>.jsonl: what one start of a member process did, as the process reports it.

Written by workloads/members/journal.py and by Journal.java. `workloads.members.transcribe` makes rows of the run log
and history.jsonl from them. `mono_ns` is the monotonic clock when the line was written.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Literal, TypeAlias

from runlog.records.codec import Rest
from runlog.records.history import UNKNOWN, Acknowledged, AcknowledgementKind, TransactionOutcome


class JournalKind(StrEnum):
    STARTED = "started"
    LEFT = "left"
    PROBLEM = "problem"
    RENEWED = "renewed"
    ASSIGNED = "assigned"
    REVOKED = "revoked"
    COMMITTED = "committed"
    DELIVERED = "delivered"
    SHARE_POLLED = "share_polled"
    SHARE_ACKNOWLEDGED = "share_acknowledged"
    SHARE_END = "share_end"
    TRANSACTION_BEGAN = "transaction_began"
    TRANSACTION = "transaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSaid:
    """The member started, left its group, met a problem, or renewed the producer with which it copies."""

    mono_ns: int
    kind: Literal[JournalKind.STARTED, JournalKind.LEFT, JournalKind.PROBLEM, JournalKind.RENEWED]
    message: str | None = None  # `problem` has it.
    reason: str | None = None  # `renewed` has it.


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsAssigned:
    """The partitions that were added: topic and number."""

    mono_ns: int
    kind: ClassVar[JournalKind] = JournalKind.ASSIGNED
    generation: int = UNKNOWN
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsRevoked:
    mono_ns: int
    kind: ClassVar[JournalKind] = JournalKind.REVOKED
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsCommitted:
    """The coordinator has confirmed these offsets: topic, partition, and the offset after the last record."""

    mono_ns: int
    kind: ClassVar[JournalKind] = JournalKind.COMMITTED
    offsets: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsDelivered:
    """The application has processed these records: topic, partition, offset, time in ms, and the value in base64."""

    mono_ns: int
    kind: ClassVar[JournalKind] = JournalKind.DELIVERED
    polled_ns: int  # when poll returned them
    records: tuple[tuple[str, int, int, int, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePolled:
    """A member of a share group got these records: topic, partition, offset, delivery count. Written before it works on
    them."""

    mono_ns: int
    kind: ClassVar[JournalKind] = JournalKind.SHARE_POLLED
    polled_ns: int
    asked_ns: int  # the broker gave the records to the member at this time or later
    records: tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAcknowledged:
    """What became of acknowledgements of one partition."""

    mono_ns: int
    kind: ClassVar[JournalKind] = JournalKind.SHARE_ACKNOWLEDGED
    topic: str
    partition: int
    type: AcknowledgementKind
    outcome: Acknowledged
    offsets: tuple[int, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareEnd:
    """Where a share group stood at the end, as its coordinator told the harness. In share-ends.jsonl."""

    mono_ns: int
    kind: ClassVar[JournalKind] = JournalKind.SHARE_END
    group: str
    partition: int
    start_offset: int
    lag: int | None  # records that are not done; None: the broker did not tell


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyBegan:
    """A copier began a transaction."""

    mono_ns: int
    kind: ClassVar[JournalKind] = JournalKind.TRANSACTION_BEGAN
    number: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyEnded:
    """The end of a transaction, as the copier was told."""

    mono_ns: int
    kind: ClassVar[JournalKind] = JournalKind.TRANSACTION
    number: int
    outcome: TransactionOutcome
    asked_ns: int  # when its end was asked for
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherJournalLine:
    """A line of a kind that this version does not know."""

    mono_ns: int
    kind: str
    more: Rest


JournalLine: TypeAlias = (
    MemberSaid
    | PartitionsAssigned
    | PartitionsRevoked
    | OffsetsCommitted
    | RecordsDelivered
    | SharePolled
    | ShareAcknowledged
    | ShareEnd
    | CopyBegan
    | CopyEnded
    | OtherJournalLine
)
