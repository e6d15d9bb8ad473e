"""Lines of history.jsonl: what members of groups and transactional copiers recorded about themselves.

Made from the journals of member processes by workloads.members.transcribe; a journal has `mono_ns` where these lines
have `t_us`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final, Literal, TypeAlias

from runlog.records.codec import Rest

UNKNOWN: Final = -1


class HistoryKind(StrEnum):
    STARTED = "started"
    LEFT = "left"
    PROBLEM = "problem"
    RENEWED = "renewed"
    ASSIGNED = "assigned"
    REVOKED = "revoked"
    COMMITTED = "committed"
    POSITION = "position"
    RESET = "reset"
    TRANSACTION_BEGAN = "transaction_began"
    TRANSACTION = "transaction"
    BALANCE = "balance"
    SHARE_DELIVERED = "share_delivered"
    SHARE_ACKNOWLEDGED = "share_acknowledged"
    SHARE_END = "share_end"


class TransactionOutcome(StrEnum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class AcknowledgementKind(StrEnum):
    """What a member of a share group said of a record."""

    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"


class Acknowledged(StrEnum):
    """What the broker said to an acknowledgement. UNKNOWN: the answer is missing, or says that a write failed."""

    CONFIRMED = "confirmed"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberEvent:
    """A member started, left its group, met a problem, or renewed the producer with which it copies."""

    t_us: int
    kind: Literal[HistoryKind.STARTED, HistoryKind.LEFT, HistoryKind.PROBLEM, HistoryKind.RENEWED]
    group: str = ""
    member: str = ""
    incarnation: int = 0
    message: str | None = None  # `problem` has it.
    reason: str | None = None  # `renewed` has it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """The partitions that were added."""

    t_us: int
    kind: ClassVar[HistoryKind] = HistoryKind.ASSIGNED
    group: str = ""
    member: str = ""
    incarnation: int = 0
    generation: int = UNKNOWN
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    t_us: int
    kind: ClassVar[HistoryKind] = HistoryKind.REVOKED
    group: str = ""
    member: str = ""
    incarnation: int = 0
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitted:
    t_us: int
    kind: ClassVar[HistoryKind] = HistoryKind.COMMITTED
    group: str = ""
    member: str = ""
    incarnation: int = 0
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where the member began in a partition after the assignment: the first offset that it got."""

    t_us: int
    kind: ClassVar[HistoryKind] = HistoryKind.POSITION
    group: str = ""
    member: str
    incarnation: int = 0
    partition: int
    offset: int
    end_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionReset:
    """A member's position was reset."""

    t_us: int
    kind: ClassVar[HistoryKind] = HistoryKind.RESET
    group: str = ""
    member: str = ""
    incarnation: int = 0
    partition: int
    offset: int
    cause: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionBegan:
    t_us: int
    kind: ClassVar[HistoryKind] = HistoryKind.TRANSACTION_BEGAN
    group: str = ""
    member: str = ""
    incarnation: int = 0
    copier: int = UNKNOWN
    number: int = UNKNOWN
    records: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnded:
    """The end of a transaction, as the copier was told."""

    t_us: int
    kind: ClassVar[HistoryKind] = HistoryKind.TRANSACTION
    group: str = ""
    member: str = ""
    incarnation: int
    copier: int
    number: int
    outcome: TransactionOutcome
    asked_us: int  # when its end was asked for
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """The sum of all accounts, as it was read. It must not change."""

    t_us: int
    kind: ClassVar[HistoryKind] = HistoryKind.BALANCE
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareDelivered:
    """A member of a share group got records of a partition: (first offset, last offset, delivery count). `t_us`: when
    poll returned them."""

    t_us: int
    kind: ClassVar[HistoryKind] = HistoryKind.SHARE_DELIVERED
    group: str
    member: str
    incarnation: int
    partition: int
    asked_us: int  # the broker gave the records to the member at this time or later
    ranges: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareAcknowledged:
    """What became of acknowledgements: (first offset, last offset). `t_us`: when the member learnt it."""

    t_us: int
    kind: ClassVar[HistoryKind] = HistoryKind.SHARE_ACKNOWLEDGED
    group: str
    member: str
    incarnation: int
    partition: int
    type: AcknowledgementKind
    outcome: Acknowledged
    ranges: tuple[tuple[int, int], ...]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareEnd:
    """Where a share group stood when the harness looked last. Every record before `start_offset` is done."""

    t_us: int
    kind: ClassVar[HistoryKind] = HistoryKind.SHARE_END
    group: str
    partition: int
    start_offset: int
    lag: int | None  # records that are not done; None: the broker did not tell


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherHistory:
    """An event of a kind that this version does not know."""

    t_us: int
    kind: str
    group: str = ""
    member: str = ""
    incarnation: int = 0
    more: Rest


HistoryLine: TypeAlias = (
    MemberEvent
    | Assigned
    | Revoked
    | OffsetCommitted
    | Position
    | PositionReset
    | TransactionBegan
    | TransactionEnded
    | Balance
    | ShareDelivered
    | ShareAcknowledged
    | ShareEnd
    | OtherHistory
)
