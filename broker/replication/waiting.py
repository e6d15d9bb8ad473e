"""The acks=all produces that wait for the high watermark (Kafka's purgatory of delayed produces)."""

from __future__ import annotations

from collections import deque

from kio.schema.errors import ErrorCode

from broker.replication.types import Action, AwaitReplication, CompleteProduce


class WaitingProduces:
    def __init__(self) -> None:
        # In ascending order of required_offset, like the appends.
        self._waiting: deque[AwaitReplication] = deque()
        self.earliest_deadline_ms: int | None = None  # lower bound of the deadlines in _waiting

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    def add(self, event: AwaitReplication) -> None:
        if self._waiting and self._waiting[-1].required_offset > event.required_offset:
            # A producer repeated a batch whose first copy is not committed yet. Keep the required offsets in order.
            self._waiting = deque(sorted((*self._waiting, event), key=lambda wait: wait.required_offset))
        else:
            self._waiting.append(event)
        earliest = self.earliest_deadline_ms
        self.earliest_deadline_ms = event.deadline_ms if earliest is None else min(earliest, event.deadline_ms)

    def complete(self, high_watermark: int, error_code: ErrorCode) -> list[Action]:
        """Complete the produces that waited for offsets up to the high watermark."""
        completed: list[Action] = []
        while self._waiting and self._waiting[0].required_offset <= high_watermark:
            completed.append(CompleteProduce(token=self._waiting.popleft().token, error_code=error_code))
        if not self._waiting:
            self.earliest_deadline_ms = None
        return completed

    def expire(self, now_ms: int, error_code: ErrorCode) -> list[Action]:
        earliest = self.earliest_deadline_ms
        if earliest is None or now_ms < earliest:
            return []
        expired = [wait for wait in self._waiting if wait.deadline_ms <= now_ms]
        self._waiting = deque(wait for wait in self._waiting if wait.deadline_ms > now_ms)
        self.earliest_deadline_ms = min((wait.deadline_ms for wait in self._waiting), default=None)
        return [CompleteProduce(token=wait.token, error_code=error_code) for wait in expired]

    def fail(self, error_code: ErrorCode) -> list[Action]:
        """Fail all waiting produces."""
        failed: list[Action] = [CompleteProduce(token=wait.token, error_code=error_code) for wait in self._waiting]
        self._waiting.clear()
        self.earliest_deadline_ms = None
        return failed

    def check_invariants(self, high_watermark: int) -> None:
        offsets = [wait.required_offset for wait in self._waiting]
        assert offsets == sorted(offsets), "waiting produces are in offset order"
        assert all(offset > high_watermark for offset in offsets), "none waits in vain"
        if self._waiting:
            assert self.earliest_deadline_ms is not None, "a waiting produce has a deadline"
