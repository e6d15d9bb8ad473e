"""The contract between a coordinator and its shell: records, actions, and a ledger of committed appends.

A shard is the state of one partition of an internal topic. It changes only by `replay` (records read from the log when
this broker becomes its leader) and `handle`. A shard applies its own records when it returns their Append. So its state
is that of the leader's log, whose end may not be committed yet. Therefore a Reply or an Emit waits until the high
watermark has passed the appends that it depends on. So no client learns of a change that a fail-over could undo. A
leader's log is never truncated while it leads, so nothing has to be rolled back. When it stops leading, the shard is
dropped.

Append number 0 stands for everything that was loaded. Shown by tests/broker_coordinator/test_coordinator_runtime.py.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRecord:
    """One record of an internal topic; a null value is a tombstone."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRecord:
    """A record that was read from the log. A transactional record (KIP-447) takes effect when its marker is read."""

    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes | None
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    is_transactional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedMarker:
    """The end of a producer's transaction in this partition."""

    offset: int
    producer_id: int
    producer_epoch: int
    is_commit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The whole log was replayed, and the shard begins to serve. This is the first event that `handle` gets."""

    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """The time of `next_deadline_ms()` has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Append these as one batch, atomically. `number` counts the shard's appends from 1, without gaps."""

    number: int
    records: tuple[StateRecord, ...]
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    is_transactional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Answer the request of `token` when append number `after` is committed (None: all appends until now)."""

    token: int
    response: object
    after: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Emit:
    """Do something outside the shard when append number `after` is committed (None: all appends until now)."""

    effect: object
    after: int | None = None


CoordinatorAction: TypeAlias = Append | Reply | Emit


class Shard(Protocol):
    """One partition's state. Invariant: if its appends are replayed into a fresh shard, the durable states are
    equal."""

    def replay(self, entry: LoadedRecord | LoadedMarker) -> None: ...

    def may_append(self, event: object) -> bool:
        """Whether this event may need an append. If so, the event is refused while the log takes no appends."""
        ...

    def handle(self, event: object, now_ms: int) -> Sequence[CoordinatorAction]: ...

    def next_deadline_ms(self) -> int | None: ...

    def check_invariants(self) -> None: ...


class Ledger:
    """It knows which appends are committed, and which actions wait for them. Offsets are end offsets: the position
    after a batch."""

    def __init__(self, *, loaded_end_offset: int) -> None:
        self._open: deque[tuple[int, int]] = deque([(0, loaded_end_offset)])  # (append number, end offset) ascending
        self.appended = 0  # the last append number
        # the last append number below the high watermark; -1: not even the loaded records are committed
        self.committed = -1
        self._waiting: dict[int, Reply | Emit] = {}  # in the order of arrival
        # heap of (append number, arrival); may hold arrivals that no longer wait
        self._by_append: list[tuple[int, int]] = []
        # (deadline, arrival) ascending; may hold arrivals that no longer wait
        self._by_deadline: deque[tuple[int, int]] = deque()
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def append(self, number: int, end_offset: int) -> None:
        assert number == self.appended + 1, f"append {number} follows {self.appended}"
        assert not self._open or end_offset > self._open[-1][1], "appends end at ascending offsets"
        self.appended = number
        self._open.append((number, end_offset))

    def wait(self, action: Reply | Emit, *, deadline_ms: int | None) -> None:
        """Lets an action wait for its appends. If `deadline_ms` is None, it waits as long as the shard lives. A
        deadline must not be earlier than that of the call before."""
        after = self.appended if action.after is None else action.after
        assert 0 <= after <= self.appended, f"nothing can wait for append {after} of {self.appended}"
        self._arrivals += 1
        self._waiting[self._arrivals] = action
        heapq.heappush(self._by_append, (after, self._arrivals))
        if deadline_ms is not None and after > self.committed:
            assert not self._by_deadline or self._by_deadline[-1][0] <= deadline_ms
            self._by_deadline.append((deadline_ms, self._arrivals))

    def advance(self, high_watermark: int) -> None:
        while self._open and self._open[0][1] <= high_watermark:
            self.committed = self._open.popleft()[0]

    def pop_ready(self) -> Reply | Emit | None:
        """The next action whose appends are committed, in the order of appends and then of arrival."""
        while self._by_append and self._by_append[0][0] <= self.committed:
            action = self._waiting.pop(heapq.heappop(self._by_append)[1], None)
            if action is not None:
                return action
        return None

    def pop_expired(self, now_ms: int) -> Reply | Emit | None:
        """The next action whose time limit passed before its appends were committed. They may still be
        committed later."""
        while self._by_deadline and self._by_deadline[0][0] <= now_ms:
            action = self._waiting.pop(self._by_deadline.popleft()[1], None)
            if action is not None:
                return action
        return None

    def next_deadline_ms(self) -> int | None:
        while self._by_deadline and self._by_deadline[0][1] not in self._waiting:
            self._by_deadline.popleft()
        return self._by_deadline[0][0] if self._by_deadline else None
