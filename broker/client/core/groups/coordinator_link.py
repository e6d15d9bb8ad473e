"""Which answers a classic member awaits from its coordinator, since when, and how long it may wait.

Owns all time limits of the membership: heartbeat.interval.ms, session.timeout.ms, max.poll.interval.ms and the backoff.
It does not know the state of the member: the caller says whether there is a membership. Shown by
tests/broker_client/test_client_classic_member.py.
"""

from __future__ import annotations

import random
from enum import Enum

from broker.client.core.backoff import Backoff
from broker.client.core.config import ConsumerConfig

NEVER_MS = 2**62


class Due(Enum):
    """What a member has to do now because time has passed."""

    LEAVE = "leave"  # the application did not poll for max.poll.interval.ms
    DROP = "drop"  # the coordinator did not answer a heartbeat within session.timeout.ms
    ASK = "ask"  # JoinGroup or SyncGroup
    HEARTBEAT = "heartbeat"


class CoordinatorLink:
    """Invariant: without a coordinator, no answer is awaited."""

    __slots__ = ("_beaten_ms", "_config", "_heard_ms", "_polled_ms", "backoff", "is_asked", "is_beating", "is_there")

    def __init__(self, config: ConsumerConfig, rng: random.Random) -> None:
        self._config = config
        self.is_there = False
        self.is_asked = False  # JoinGroup, SyncGroup or LeaveGroup waits for its answer
        self.is_beating = False  # a heartbeat waits for its answer
        self.backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, rng)
        self._beaten_ms = 0  # when the last heartbeat was sent
        self._heard_ms = 0  # when the coordinator last answered without an error
        self._polled_ms = 0

    # -- what happened

    def polled(self, polled_ms: int) -> None:
        self._polled_ms = max(self._polled_ms, polled_ms)

    def found(self, now_ms: int) -> None:
        self.is_there = True
        self._heard_ms = now_ms

    def lost(self) -> None:
        self.is_there = False
        self.expect_nothing()

    def expect_nothing(self) -> None:
        self.is_asked = self.is_beating = False

    def settled(self, now_ms: int) -> None:
        """The coordinator did what it was asked to do."""
        self.backoff.succeeded()
        self._heard_ms = now_ms

    def heard(self, now_ms: int) -> None:
        self._heard_ms = now_ms

    def beat(self, now_ms: int) -> None:
        self.is_beating = True
        self._beaten_ms = now_ms

    def synced(self, now_ms: int) -> None:
        """The next heartbeat is due one interval after the answer to SyncGroup."""
        self._beaten_ms = now_ms

    # -- work that is due

    def due(self, now_ms: int, *, is_member: bool, has_question: bool) -> Due | None:
        """`has_question` says that JoinGroup or SyncGroup must be sent."""
        if is_member and now_ms >= self._poll_limit_ms():
            return Due.LEAVE
        if not self.is_there:
            return None
        if is_member and now_ms >= self._session_limit_ms():
            return Due.DROP
        if now_ms < self.backoff.not_before_ms:
            return None
        if has_question and not self.is_asked:
            return Due.ASK
        if is_member and not self.is_beating and now_ms >= self._beaten_ms + self._config.heartbeat_interval_ms:
            return Due.HEARTBEAT
        return None

    def next_deadline_ms(self, *, is_member: bool, has_question: bool) -> int:
        deadlines = [NEVER_MS]
        if is_member:
            deadlines.append(self._poll_limit_ms())
        if is_member and self.is_there:
            deadlines.append(self._session_limit_ms())
            if not self.is_beating:
                deadlines.append(max(self._beaten_ms + self._config.heartbeat_interval_ms, self.backoff.not_before_ms))
        if has_question and self.is_there and not self.is_asked:
            deadlines.append(self.backoff.not_before_ms)
        return min(deadlines)

    def _poll_limit_ms(self) -> int:
        return self._polled_ms + self._config.max_poll_interval_ms

    def _session_limit_ms(self) -> int:
        return self._heard_ms + self._config.session_timeout_ms

    def check_invariants(self) -> None:
        assert self.is_there or not (self.is_asked or self.is_beating)
