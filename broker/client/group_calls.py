"""Commits and look-ups of committed offsets, from the application's call to the coordinator's answer, with retries.

The application's thread calls `put`. The member's thread calls everything else. Shown by
tests/broker_client/test_client_groups.py.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

from broker.client.clock import now_ms
from broker.client.core.backoff import backoff_ms
from broker.client.core.errors import LOCAL_ERROR_CODE, KafkaError, TimedOutError
from broker.client.group_call import GroupCall
from broker.client.group_requests import Identity, MemberConfig
from broker.client.network import Network
from broker.client.protocol import HIGHEST
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message

CALLS_MAX = 1000  # calls that wait for the coordinator; more are refused
_LOOK_MS_MAX = 1000  # the caller checks the calls at least this often
_COORDINATOR_ERRORS = frozenset({ErrorCode.not_coordinator, ErrorCode.coordinator_not_available})


class GroupCalls:
    """Invariant: a call that is not done is in exactly one place: new, waiting or in flight."""

    def __init__(
        self,
        config: MemberConfig,
        rng: random.Random,
        network: Network,
        *,
        identity: Callable[[], Identity],
        on_wrong_coordinator: Callable[[str], None],
        wake: Callable[[], None],
    ) -> None:
        self._config = config
        self._random = rng
        self._network = network
        self._identity = identity
        self._on_wrong_coordinator = on_wrong_coordinator
        self._wake = wake
        self._new: deque[GroupCall] = deque()
        self._waiting: list[GroupCall] = []
        self._in_flight: set[GroupCall] = set()

    @property
    def are_waiting(self) -> bool:
        return bool(self._waiting)

    def put(self, call: GroupCall) -> None:
        if len(self._new) + len(self._waiting) + len(self._in_flight) >= CALLS_MAX:
            raise KafkaError(
                LOCAL_ERROR_CODE, f"{CALLS_MAX} requests wait for the coordinator", name="LOCAL_QUEUE_FULL"
            )
        self._new.append(call)

    def take_new(self) -> None:
        while self._new:
            self._waiting.append(self._new.popleft())

    def send_due(self, coordinator: int | None, time_ms: int) -> int:
        """Sends the calls that are due. Returns when to call this again."""
        waiting, self._waiting = self._waiting, []
        look_ms = time_ms + _LOOK_MS_MAX
        for call in waiting:
            if time_ms >= call.deadline_ms:
                last = f"; last failure: {call.error}" if call.error is not None else ""
                self._finish(call, TimedOutError(f"{call.api_key.name}: no success in time{last}", definite=False))
            elif coordinator is None or not self._network.is_ready(coordinator) or time_ms < call.not_before_ms:
                self._waiting.append(call)
                look_ms = min(look_ms, call.deadline_ms)
                if call.not_before_ms > time_ms:
                    look_ms = min(look_ms, call.not_before_ms)
            else:
                self._send(call, coordinator, time_ms)
        return look_ms

    def _send(self, call: GroupCall, coordinator: int, time_ms: int) -> None:
        version = self._network.version(coordinator, call.api_key, HIGHEST[call.api_key])
        if version is None:
            text = f"broker {coordinator} offers no version of {call.api_key.name} that we speak"
            self._finish(call, KafkaError(ErrorCode.unsupported_version, text))
            return
        try:
            message = call.build(version, self._identity())
        except KafkaError as error:
            self._finish(call, error)
            return
        self._in_flight.add(call)
        left_ms = max(1, min(self._config.request_timeout_ms, call.deadline_ms - time_ms))
        self._network.send(coordinator, call.api_key, version, message, call, timeout_ms=left_ms)

    def answered(self, call: GroupCall, message: Message) -> None:
        try:
            call.result = call.parse(message)
        except KafkaError as error:
            self.failed(call, error)
            return
        self._in_flight.discard(call)
        self._finish(call, None)

    def failed(self, call: GroupCall, error: KafkaError) -> None:
        """This attempt has failed. The call waits for the next attempt if a retry can help."""
        self._in_flight.discard(call)
        if error.code in _COORDINATOR_ERRORS:
            self._on_wrong_coordinator(str(error))
        is_worth_it = error.retriable or error.code == ErrorCode.stale_member_epoch
        if not (call.is_repeated and is_worth_it) or now_ms() >= call.deadline_ms:
            self._finish(call, error)
            return
        call.error = error
        call.attempts += 1
        first_ms, longest_ms = self._config.retry_backoff_ms, self._config.retry_backoff_max_ms
        call.not_before_ms = now_ms() + backoff_ms(call.attempts, first_ms, longest_ms, self._random)
        self._waiting.append(call)

    def fail_waiting(self, error: KafkaError) -> None:
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            self._finish(call, error)

    def fail_all(self, error: KafkaError) -> None:
        for call in (*self._new, *self._waiting, *self._in_flight):
            self._finish(call, error)

    def _finish(self, call: GroupCall, error: KafkaError | None) -> None:
        call.error = error
        if call.on_done is not None:
            call.on_done(call)
        call.done.set()
        self._wake()
