"""One partition for one share group (KIP-932): which of its records are available, acquired by a member, or done.

    AVAILABLE --acquire--> ACQUIRED --accept--> ACKNOWLEDGED
        ^                     | release, or its lock timed out
        +---------------------+--> ARCHIVED, after the last delivery that is allowed; by reject and by a gap at once

ACKNOWLEDGED and ARCHIVED are final. Until then a record is offered again and again. The start offset moves over final
records. An acknowledgement counts once the share coordinator has written it (`persisted`). Until then no other member
gets the records. The end of a lock takes effect at once and does not wait for the write. If this write fails, nothing
is lost, because after a fail-over the record is offered again anyway.

Shown by tests/broker_sharing/test_sharing_partition.py, which compares this with a plain model of single records.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from broker.node.features.share_groups.delivery.deliveries import Acquired, Delivery, Fetched, Limits
from broker.node.features.share_groups.delivery.runs import NOBODY, Run, Runs
from broker.node.features.share_groups.delivery.state_batches import DeliveryState, StateBatch, joined
from broker.wire.errors import ErrorCode

GAP, ACCEPT, RELEASE, REJECT, RENEW = 0, 1, 2, 3, 4  # the types of an acknowledgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """`types` holds one type for all offsets, or one for each offset."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change that the share coordinator must write. `persisted(token, ...)` then reports the outcome. Without batches
    there is nothing to write."""

    token: int
    batches: tuple[StateBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The request was refused, and nothing has changed."""

    error_code: ErrorCode
    message: str


class SharePartition:
    """`start_offset` and `batches` are what the share coordinator keeps. Records between them that it does not know
    were acquired when the last leader ended, or were never delivered. They are offered again."""

    def __init__(self, *, start_offset: int, batches: Iterable[StateBatch] = (), limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._runs = Runs(start_offset)
        self._tokens = 0
        self._deadlines: list[int] = []  # a heap; may hold deadlines of locks that have ended already
        for batch in batches:
            if batch.last_offset < self._runs.end:
                continue
            if batch.first_offset > self._runs.end:
                self._runs.append(batch.first_offset - 1, DeliveryState.AVAILABLE, 0)
            together = (self._runs.end, batch.last_offset)
            state = DeliveryState(batch.state)
            self._runs.append(batch.last_offset, state, batch.delivery_count, in_flight_batch=together)
        self._runs.drop_final()

    @property
    def start_offset(self) -> int:
        return self._runs.start

    @property
    def end_offset(self) -> int:
        """The first offset that was never delivered."""
        return self._runs.end

    def delivery_complete_count(self) -> int:
        """How many records from the start offset on are final (KIP-1226)."""
        return sum(run.count for run in self._runs if run.state.is_final)

    def next_fetch_offset(self) -> int:
        return next((run.first for run in self._runs if run.is_offered), self._runs.end)

    def can_acquire(self) -> bool:
        """Whether a record is available again, or more records may be in flight."""
        return self.next_fetch_offset() < self._runs.end or self._free() > 0

    def _free(self) -> int:
        return self.limits.record_locks_max - (self._runs.end - self._runs.start)

    # -- delivery ----------------------------------------------------------------------------------------------------

    def acquire(
        self, member: str, fetched: Fetched, *, records_max: int, batch_size: int, is_strict: bool, now_ms: int
    ) -> tuple[Acquired, ...]:
        """Give records of `fetched` to this member, by the rules of deliveries.py."""
        assert member, "somebody acquires"
        if not fetched.batches or records_max <= 0:
            return ()
        first = fetched.first
        self._archive(fetched.fetch_offset, first - 1)  # compaction has removed them from the log
        if self._runs.end < first:
            self._runs.append(first - 1, DeliveryState.ARCHIVED, 0)
        delivery = Delivery(
            runs=self._runs,
            limits=self.limits,
            member=member,
            deadline_ms=now_ms + self.limits.lock_duration_ms,
            fetched=fetched,
            batch_size=batch_size,
            is_strict=is_strict,
            left=records_max,
        )
        found = delivery.again()
        found += delivery.new(self._free())
        if found:
            heapq.heappush(self._deadlines, delivery.deadline_ms)
        self._runs.drop_final()
        return tuple(found)

    def _archive(self, first: int, last: int) -> None:
        """Archive the available records in this range, because the log does not hold them."""
        for run in self._runs.overlapping(first, last):
            if run.is_offered:
                for part in self._runs.between(max(run.first, first), min(run.last, last)):
                    part.state = DeliveryState.ARCHIVED

    # -- acknowledgement -----------------------------------------------------------------------------------------------

    def acknowledge(self, member: str, acks: Sequence[Acknowledgement], now_ms: int) -> Change | Refusal:
        """Apply all acknowledgements, or none. Records before the start offset are final already. An acknowledgement of
        them is accepted and changes nothing."""
        self._tokens += 1
        token, batches = self._tokens, []
        renewed: list[Run] = []
        for ack in acks:
            refusal = self._cannot_be_acknowledged(member, ack)
            if refusal is not None:
                self.persisted(token, is_written=False)
                return refusal
            for first, last, kind in _segments(ack, self._runs.start):
                for run in self._runs.between(first, last):
                    if kind == RENEW:
                        renewed.append(run)
                    else:
                        self._begin(run, token, self._state_after(kind, run))
                        batches.append(run.batch())
        for run in renewed:
            if run.state is DeliveryState.ACQUIRED:
                run.lock_deadline_ms = now_ms + self.limits.lock_duration_ms
                heapq.heappush(self._deadlines, run.lock_deadline_ms)
        return Change(token=token, batches=joined(sorted(batches, key=lambda each: each.first_offset)))

    def _cannot_be_acknowledged(self, member: str, ack: Acknowledgement) -> Refusal | None:
        """Why this is refused. The texts and the order of the checks are Kafka's."""
        if ack.last_offset < self._runs.start:
            return None
        not_found = "Batch record not found. The {} offset in request is past acquired records."
        if ack.first_offset >= self._runs.end:
            return Refusal(error_code=ErrorCode.invalid_request, message=not_found.format("first"))
        if ack.last_offset >= self._runs.end:
            return Refusal(error_code=ErrorCode.invalid_request, message=not_found.format("last"))
        for run in self._runs.overlapping(ack.first_offset, ack.last_offset):
            if run.state is not DeliveryState.ACQUIRED:
                text = "The batch cannot be acknowledged. The batch is not in the acquired state."
                return Refusal(error_code=ErrorCode.invalid_record_state, message=text)
            if run.member != member:
                text = "Member is not the owner of batch record"
                return Refusal(error_code=ErrorCode.invalid_record_state, message=text)
        return None

    def _state_after(self, kind: int, run: Run) -> DeliveryState:
        if kind == ACCEPT:
            return DeliveryState.ACKNOWLEDGED
        return self._released(run) if kind == RELEASE else DeliveryState.ARCHIVED

    def _released(self, run: Run) -> DeliveryState:
        is_last = run.delivery_count >= self.limits.delivery_count_limit
        return DeliveryState.ARCHIVED if is_last else DeliveryState.AVAILABLE

    def _begin(self, run: Run, token: int, state: DeliveryState) -> None:
        run.before, run.token = replace(run), token
        run.state, run.member, run.lock_deadline_ms = state, NOBODY, 0

    def release(self, member: str) -> Change:
        """The member's session has ended. Each record that it holds becomes available again, or archived after the last
        delivery that is allowed."""
        self._tokens += 1
        batches = []
        for run in self._runs:
            if run.state is DeliveryState.ACQUIRED and run.member == member:
                self._begin(run, self._tokens, self._released(run))
                batches.append(run.batch())
        return Change(token=self._tokens, batches=joined(batches))

    def persisted(self, token: int, *, is_written: bool) -> None:
        """The change with this token has been written, or has failed. A failed change is undone: the member holds the
        records again until the lock ends. If the outcome is unknown, the change is undone too. Of two writes the
        coordinator keeps the later state."""
        for run in self._runs:
            if run.token != token:
                continue
            before = run.before
            assert before is not None
            run.token, run.before = 0, None
            if not is_written:
                run.state, run.member = before.state, before.member
                run.lock_deadline_ms = before.lock_deadline_ms
                heapq.heappush(self._deadlines, run.lock_deadline_ms)
        self._runs.drop_final()

    # -- time and the log ----------------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        return self._deadlines[0] if self._deadlines else None

    def tick(self, now_ms: int) -> tuple[StateBatch, ...]:
        """End the locks that have timed out. The caller writes the result, but nothing waits for this write."""
        if not self._deadlines or self._deadlines[0] > now_ms:
            return ()
        while self._deadlines and self._deadlines[0] <= now_ms:
            heapq.heappop(self._deadlines)
        batches = []
        for run in self._runs:
            if run.state is DeliveryState.ACQUIRED and run.lock_deadline_ms <= now_ms:
                run.state, run.member, run.lock_deadline_ms = self._released(run), NOBODY, 0
                batches.append(run.batch())
        self._runs.drop_final()
        return joined(batches)

    def log_start_moved(self, log_start_offset: int) -> None:
        """Drop the records before this offset, also if a member holds them."""
        self._runs.drop_before(log_start_offset)
        self._runs.drop_final()

    def check_invariants(self) -> None:
        self._runs.check_invariants()
        for run in self._runs:
            is_locked = run.state is DeliveryState.ACQUIRED
            assert not is_locked or any(each <= run.lock_deadline_ms for each in self._deadlines), "a lock without end"


def _segments(ack: Acknowledgement, start_offset: int) -> list[tuple[int, int, int]]:
    """(first, last, type) of each part with one type, from the start offset on."""
    first = max(ack.first_offset, start_offset)
    if len(ack.types) == 1:
        return [(first, ack.last_offset, ack.types[0])] if first <= ack.last_offset else []
    found: list[tuple[int, int, int]] = []
    for offset in range(first, ack.last_offset + 1):
        kind = ack.types[offset - ack.first_offset]
        if found and found[-1][2] == kind:
            found[-1] = (found[-1][0], offset, kind)
        else:
            found.append((offset, offset, kind))
    return found
