"""The reference share consumer (KIP-932): a member of a share group that gets records and acknowledges each of them.

    share.acknowledgement.mode=implicit: `poll` and `commit_sync` accept what the last poll returned.
    share.acknowledgement.mode=explicit: the application calls `acknowledge` for each record before the next poll.

Names and rules are those of Java's KafkaShareConsumer. Records are fetched inside `poll`, without a thread. A thread
sends the heartbeats (member_thread.py). Only one thread at a time may use it. Owns: what the application calls, and the
waits. share_fetching.py speaks to the leaders, core/shares decides.

Left out: interceptors, metrics, repeating acknowledgements that failed with a retriable error.
Shown by tests/broker_node/test_node_share_consumer.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from broker.client.client_settings import screen_share
from broker.client.clock import now_ms
from broker.client.core.batch import TopicPartition
from broker.client.core.errors import KafkaError, TimedOutError
from broker.client.core.groups.events import Leave, StepDone, Subscribe
from broker.client.core.settings import as_properties
from broker.client.core.shares.config import parse_share_consumer
from broker.client.core.shares.values import AcknowledgeType, Outcome, ShareRecord
from broker.client.member_thread import MemberThread
from broker.client.share_fetching import ShareFetching

_CLOSE_MS = 30_000
AcknowledgementCommitCallback: TypeAlias = Callable[[list[Outcome]], None]


class ShareConsumer:
    """`properties` are Kafka's properties of a share consumer; an unknown one is an error."""

    def __init__(self, properties: Mapping[str, object], *, seed: int | None = None) -> None:
        self._config = parse_share_consumer(screen_share(properties))
        rng = random.Random(seed)
        self._fetching = ShareFetching(self._config, rng)
        self._client, self._core = self._fetching.client, self._fetching.core
        own = random.Random(rng.getrandbits(64))  # only for the group's thread
        self._thread = MemberThread(self._config, own, self._client.network.wake)
        self._member_id = self._thread.core.member_id
        self._topics: frozenset[str] = frozenset()
        self._callback: AcknowledgementCommitCallback | None = None
        self._is_closed = False
        self._asked_ms: int | None = None

    def effective_properties(self) -> dict[str, str]:
        return as_properties(self._config)

    # -- subscription ---------------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics, in place of those before. The group assigns the partitions in later polls. No
        topics: `unsubscribe`."""
        self._check_open("subscribe()")
        if isinstance(topics, str):
            raise _wrong_state(f"subscribe(): expected a list of topics, got {topics!r}")
        chosen = frozenset(topics)
        if not chosen:
            self.unsubscribe()
            return
        self._topics = chosen
        self._thread.polled_ms = now_ms()
        for topic in chosen:
            self._client.metadata.use_topic(topic, now_ms())
        self._thread.submit(Subscribe(topics=chosen))

    def unsubscribe(self) -> None:
        """Leaves the group. Records that no poll has returned yet are released."""
        self._check_open("unsubscribe()")
        if self._topics:
            self._topics = frozenset()
            self._core.assign(())
            self._thread.leave(Leave(reason="unsubscribed"), self._config.default_api_timeout_ms)

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that the group gave to this member. Other members may have them too."""
        return self._core.assignment()

    def is_member(self) -> bool:
        """Whether the coordinator has accepted the member."""
        return self._thread.identity().generation >= 0

    # -- records --------------------------------------------------------------------------------------------------

    def poll(self, timeout_ms: int = 0) -> list[ShareRecord]:
        """Return up to max.poll.records records, and renewed ones alone. Waits at most `timeout_ms` for the first.

        In explicit mode, raises LOCAL_STATE if a record of an earlier poll is not acknowledged. Raises KafkaError.
        """
        self._check_open("poll()")
        if not self._topics:
            raise _wrong_state("poll(): the consumer is not subscribed to any topics")
        self._accept_implicitly()
        if self._core.unacknowledged:
            raise _wrong_state(f"poll(): {self._core.unacknowledged} records of the last poll are not acknowledged")
        deadline_ms = now_ms() + timeout_ms
        while True:
            self._on_poll()
            records = self._take()
            # What is fetched is locked. So nothing is fetched before the application wants it.
            self._fetching.send(self._member_id, wants_records=not records and self.is_member())
            if records:
                # Nothing may be raised here: the records that were taken would be held until their locks end.
                self._client.advance(0)
                return records
            retry_ms = self._core.next_retry_ms(now_ms())
            self._client.step(deadline_ms if retry_ms is None else min(deadline_ms, retry_ms))
            if now_ms() >= deadline_ms:
                return self._take()

    def _take(self) -> list[ShareRecord]:
        records = self._core.take(self._config.max_poll_records, now_ms())
        self._asked_ms = self._fetching.asked_ms
        if not self._core.has_waiting:
            self._fetching.asked_ms = None
        return records

    def asked_ms(self) -> int | None:
        """A time on the monotonic clock: the brokers gave the records of the last poll to this member then or later.
        None if that poll returned no new records. Java's client does not tell it."""
        return self._asked_ms

    def _on_poll(self) -> None:
        thread = self._thread
        thread.polled_ms = now_ms()
        self._tell_outcomes()
        if thread.failure is not None:
            raise _wrong_state(f"the group's thread died: {thread.failure!r}")
        if thread.refusal is not None:
            refusal, thread.refusal = thread.refusal, None
            raise refusal
        if thread.has_step:
            step = thread.take_step()
            if step is not None:
                self._core.assign(step.remaining)
                thread.submit(StepDone())
        if thread.core.error is not None and not thread.has_step:
            raise thread.core.error

    # -- acknowledgements -----------------------------------------------------------------------------------------

    def acknowledge(self, record: ShareRecord, kind: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Says what became of a record of the last poll. It goes to the broker with the next poll or commit."""
        self.acknowledge_offset(TopicPartition(record.topic, record.partition), record.offset, kind)

    def acknowledge_offset(self, partition: TopicPartition, offset: int, kind: AcknowledgeType) -> None:
        self._check_open("acknowledge()")
        if self._config.is_implicit:
            raise _wrong_state("acknowledge(): needs share.acknowledgement.mode=explicit")
        self._core.acknowledge(partition, offset, kind)

    def commit_sync(self, timeout_ms: int | None = None) -> dict[TopicPartition, KafkaError | None]:
        """Sends the acknowledgements and waits for the answers. For each partition: None, or its first error. Raises
        TimedOutError if an answer does not come in time; nobody knows then whether these acknowledgements count."""
        self._check_open("commit_sync()")
        self._tell_outcomes()
        self._accept_implicitly()
        self._core.flush()
        limit_ms = self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = now_ms() + limit_ms
        while self._core.has_unconfirmed:
            if now_ms() >= deadline_ms:
                raise TimedOutError(f"commit_sync(): no answer within {limit_ms} ms", definite=False)
            self._fetching.send(self._member_id, wants_records=False)
            retry_ms = self._core.next_retry_ms(now_ms())
            self._client.step(deadline_ms if retry_ms is None else min(deadline_ms, retry_ms))
        result: dict[TopicPartition, KafkaError | None] = {}
        for outcome in self._tell_outcomes():
            result[outcome.partition] = result.get(outcome.partition) or outcome.error
        return result

    def set_acknowledgement_commit_callback(self, callback: AcknowledgementCommitCallback | None) -> None:
        """`callback(outcomes)` runs inside `poll`, `commit_sync` and `close`."""
        self._callback = callback

    # -- the end --------------------------------------------------------------------------------------------------

    def close(self, timeout_ms: int = _CLOSE_MS) -> None:
        """Sends the acknowledgements that were made, releases all other records, and leaves the group, within about
        this time. As in Java, it accepts nothing implicitly."""
        if self._is_closed:
            return
        self._is_closed = True
        deadline_ms = now_ms() + timeout_ms
        try:
            self._core.flush()
            ends_ms = min(deadline_ms, now_ms() + self._config.request_timeout_ms)
            self._fetching.close_sessions(self._member_id, ends_ms, lambda: self._thread.failure is not None)
            if self._topics:
                self._thread.leave(Leave(reason="the consumer was closed"), max(0, ends_ms - now_ms()))
        finally:
            self._thread.stop(max(1000, deadline_ms - now_ms()))
            self._client.close()
            self._tell_outcomes()

    def __enter__(self) -> ShareConsumer:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    # -- private --------------------------------------------------------------------------------------------------

    def _accept_implicitly(self) -> None:
        if self._config.is_implicit:
            self._core.acknowledge_all(AcknowledgeType.ACCEPT)

    def _tell_outcomes(self) -> list[Outcome]:
        found = self._core.take_outcomes()
        if found and self._callback is not None:
            self._callback(found)
        return found

    def _check_open(self, call: str) -> None:
        if self._is_closed:
            raise _wrong_state(f"{call}: the consumer is closed")


def _wrong_state(message: str) -> KafkaError:
    return KafkaError(-1, message, name="LOCAL_STATE")
