"""What one trial brought to light: what was asked of the client, what it told, and what the log holds at the end.

The order of `happened` is that in which the harness saw it: a command stands where it was written, an event where it
was read. `member` numbers the clients of a trial. Values only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from harness.explore.trial.model import Trial
from runlog.records.exchange import KafkaExchange

Partition = tuple[str, int]
REFUSES: Final = "the client refuses the settings"  # how a problem begins if the client does not say which setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A record was given to the client. `value` names the record: no other of the trial has it. If its value is empty,
    the key does; so wherever a value stands here."""

    at_us: int
    seq: int
    value: bytes
    partition: int = -1  # the one asked for; -1: the client chooses
    transaction: int = 0  # number of the transaction it belongs to, 0: none
    # Records of one command that several callers give at once have an order for each caller only.
    command: int = 0
    caller: int = 0
    source: tuple[int, int] | None = None  # It is a copy of the record at this partition and offset.
    member: int = 0  # who gave it


class Fate(StrEnum):
    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    at_us: int
    seq: int
    fate: Fate
    partition: int = -1
    offset: int = -1
    code: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """A record was handed out by a poll."""

    at_us: int
    partition: int
    offset: int
    value: bytes | None
    member: int = 0


class Change(StrEnum):
    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    at_us: int
    change: Change
    partitions: frozenset[int]
    member: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """From here on the next record of `partition` is the first at `offset` or later. Said when it was asked for."""

    at_us: int
    partition: int
    offset: int
    member: int = 0


class Told(StrEnum):
    DONE = "done"
    FAILED = "failed"  # the client answered with an error
    UNANSWERED = "unanswered"  # it died, or has not answered within its bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit of these positions and how it ended. `is_automatic`: the client did it by itself and told of it."""

    at_us: int
    offsets: Mapping[int, int]
    told: Told
    code: int = 0
    is_automatic: bool = False
    member: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnd:
    at_us: int
    transaction: int
    is_commit: bool
    told: Told
    code: int = 0
    is_after_commit: bool = False  # It was given up after a commit that failed, and nobody said how that ended.


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """The client reported an error, or said that it can do no more (`is_fatal`)."""

    at_us: int
    reason: str
    code: int = -1
    command: str = ""  # the command that it answers; empty: none
    is_fatal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """A command had no answer when its time and the protocol's allowance were over."""

    at_us: int
    command: str
    allowed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushedEarly:
    """A flush was answered as done, and records that were given to the client before had no outcome yet."""

    at_us: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """The client used so much of one processor while it had nothing to do, or while no broker was there."""

    at_us: int
    share: float
    looked_ms: int
    member: int = 0
    is_alone: bool = False  # No broker was there, or none answered.

    @property
    def when(self) -> str:
        return "while no broker is there" if self.is_alone else "with nothing to do"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """A client began: at first, after a restart, or as another process. Positions of the one before are void."""

    at_us: int
    is_killed_before: bool = False
    member: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The process ended without being asked to. `signal` 0: it exited with `code`."""

    at_us: int
    code: int
    signal: int = 0
    last_words: str = ""
    member: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """The harness gave up waiting: `missing` of `expected` records did not come, or have no outcome."""

    at_us: int
    what: str  # "records unread" or "records without an outcome"
    missing: int
    expected: int
    waited_ms: int
    cpu_share: float | None = None  # The client used this share of one core meanwhile.


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The cluster has changed something, as the program wanted; `what` in a reader's words."""

    at_us: int
    what: str


Happening = (
    Sent | Outcome | Delivered | Rebalance | Sought | Commit | TransactionEnd | Problem | Overdue | Connected | Ended
    | Stuck | Changed | FlushedEarly | Busy
)  # fmt: skip


OTHERS: Final = b"other/"  # Records that the search writes itself, in somebody else's place, begin with it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """A record of the log that a read_committed reader must see."""

    partition: int
    offset: int
    value: bytes | None
    is_aborted: bool = False
    is_deleted: bool = False  # the cluster has deleted it: nobody needs to get it any more


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    happened: tuple[Happening, ...]
    log: tuple[Logged, ...]  # It is in the order of partition and offset, with aborted ones.
    # Of a copier: the log of the topic that it copies to, and the offsets that its group has at last.
    copies: tuple[Logged, ...] = ()
    committed: Mapping[int, int] = field(default_factory=dict)
    other_topics: tuple[bytes, ...] = ()  # values of the trial that were found in topics that are not its own
    ends: Mapping[int, int] = field(default_factory=dict)  # partition -> end offset
    disturbed: int = 0  # requests that the disturbance met; of two, the first one
    disturbed_then: int = 0  # requests that the second one met
    disturbed_besides: tuple[int, ...] = ()  # likewise, each of those besides
    recreated_us: int | None = None  # since then the topic is another one of the same name; `log` is that one's
    first_disturbed_us: int | None = None
    then_disturbed_us: int | None = None  # likewise, by the second one
    healed_us: int | None = None  # since then both are over
    is_auto_commit: bool = False
    is_read_uncommitted: bool = False
    exchanges: tuple[KafkaExchange, ...] = ()  # This client had them, in the order of its requests.
    problem: str = ""  # It is ours: the history proves nothing if it is not empty.
    # Settings that are in force and were not asked for, by their names, as the client has told at its connect.
    effective: Mapping[str, str] = field(default_factory=dict)
    refused: str = ""  # the property that the client cannot set as the program wants; that is a problem too


def as_met(trial: Trial, history: History) -> Trial:
    """The trial without a second disturbance that has met nothing: it was one with the first alone."""
    return trial if trial.then is None or history.disturbed_then else replace(trial, then=None)
