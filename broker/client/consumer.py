"""The reference consumer. It reads assigned partitions, or it is a member of a group. Records are fetched inside
`poll`, without a thread. With a `group.id` there is a thread for the group (member_thread.py), so that heartbeats go on
while the application works.

Owns: what the application calls, and the waits of `poll`. fetching.py speaks to the brokers, core/fetcher.py decides,
and group_session.py connects the consumer to its group. Only one thread at a time may use it.
Shown by tests/broker_client/test_client_mock_cluster.py and test_client_groups.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

from broker.client.client_settings import screen
from broker.client.clock import now_ms
from broker.client.core.batch import TopicPartition
from broker.client.core.config import as_properties, parse_consumer
from broker.client.core.errors import KafkaError, TimedOutError
from broker.client.core.fetch_state import EARLIEST, LATEST, ConsumerRecord
from broker.client.core.transactions import GroupMetadata, OffsetAndMetadata
from broker.client.fetching import Fetching
from broker.client.group_commits import CommitCallback, Offsets
from broker.client.group_session import GroupSession, RebalanceListener
from broker.client.interceptors import ConsumerInterceptor, ConsumerInterceptors

_LOOK_UP_MS = 1000  # a look-up of offsets may take this long even in poll(0), otherwise it would never succeed
_CLOSE_MS = 30_000


class Consumer:
    """See docs/internals/contracts.md. `properties` are Kafka's consumer properties; an unknown one is an error."""

    def __init__(
        self,
        properties: Mapping[str, object],
        *,
        interceptors: Iterable[ConsumerInterceptor] = (),
        seed: int | None = None,
    ) -> None:
        self._config = parse_consumer(screen("consumer", properties))
        self._interceptors = ConsumerInterceptors(interceptors)
        rng = random.Random(seed)
        self._fetching = Fetching(self._config, rng)
        self._client, self._core = self._fetching.client, self._fetching.core
        self._is_closed = False
        self._group: GroupSession | None = None
        if self._config.has_group:
            own = random.Random(rng.getrandbits(64))  # only for the group's thread
            self._group = GroupSession(
                self._config,
                self._core,
                self._client.metadata,
                own,
                self._client.network.wake,
                self._interceptors,
            )

    def effective_properties(self) -> dict[str, str]:
        return as_properties(self._config)

    # -- assignment and subscription ------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these partitions and no others, without membership in the group. It cannot be used together with
        `subscribe`."""
        if self._group is not None and self._group.is_subscribed:
            raise _wrong_state("assign(): the consumer is subscribed; unsubscribe() first")
        chosen = [TopicPartition(*each) for each in partitions]
        for partition in chosen:
            self._client.metadata.use_topic(partition.topic, now_ms())
        self._core.assign(chosen)

    def subscribe(self, topics: Iterable[str], listener: RebalanceListener | None = None) -> None:
        """Subscribe to topics by name. The group assigns the partitions in later polls."""
        group = self._the_group("subscribe()")
        if isinstance(topics, str):
            raise _wrong_state(f"subscribe(): expected a list of topics, got {topics!r}")
        if not group.is_subscribed and self._core.assignment():
            raise _wrong_state("subscribe(): partitions are assigned; unsubscribe() first")
        group.subscribe(topics, listener)

    def unsubscribe(self) -> None:
        """Ends a subscription, and also an assignment made by `assign`."""
        if self._group is not None:
            self._group.unsubscribe()
        self._core.assign(())

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._core.assignment())

    # -- positions ------------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """`leader_epoch` is the epoch of the record before, if known. The position is then validated (KIP-320)."""
        if offset < 0:
            raise _wrong_state(f"seek(): expected an offset from 0 on, got {offset}")
        self._core.seek(TopicPartition(*partition), offset, leader_epoch)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Seek in these partitions, or in all assigned ones. The offset is looked up at the next poll."""
        for partition in partitions or self._core.assignment():
            self._core.seek_to(TopicPartition(*partition), EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        for partition in partitions or self._core.assignment():
            self._core.seek_to(TopicPartition(*partition), LATEST)

    def read_replica(self, partition: TopicPartition) -> int | None:
        """The follower that records of this partition come from, which its leader named because of client.rack. None:
        they come from the leader."""
        return self._core.read_replica(TopicPartition(*partition))

    def position(self, partition: TopicPartition) -> int:
        """Offset of the next record that `poll` will return. Looks it up if necessary, within
        default.api.timeout.ms."""
        chosen = TopicPartition(*partition)
        deadline_ms = now_ms() + self._config.default_api_timeout_ms
        while True:
            if self._group is not None:
                self._group.on_poll()
            position = self._core.position(chosen)
            if position is not None:
                return position
            is_coming = chosen in self._core.resets(2**62) or chosen in self._core.awaiting_committed()
            if now_ms() >= deadline_ms or not is_coming:
                raise TimedOutError(
                    f"no position of {chosen.topic}-{chosen.partition}: seek first, or set a reset policy"
                )
            self._fetching.resolve(deadline_ms)
            self._client.step(now_ms() + self._config.retry_backoff_ms)

    def poll(self, timeout_ms: int = 0) -> list[ConsumerRecord]:
        """Return up to max.poll.records records. Waits at most `timeout_ms` for the first. Raises KafkaError.

        Rebalances happen inside this call: it calls the rebalance listener and the callbacks of commits.
        """
        if self._is_closed:
            raise _wrong_state("poll(): the consumer is closed")
        time_ms = now_ms()
        deadline_ms = time_ms + timeout_ms
        group = self._group
        while True:
            if group is not None:
                group.on_poll()
            records = self._core.take(self._config.max_poll_records)
            self._fetching.send()
            if records:
                # Read what has arrived, without waiting. Nothing may be raised here: the position is already after the
                # records that were taken, so they would be lost.
                self._client.advance(0)
                return self._handed_out(records)
            time_ms = now_ms()
            if self._core.resets(time_ms) or self._core.validations(time_ms):
                look_up_deadline_ms = max(deadline_ms, time_ms + _LOOK_UP_MS)
                self._fetching.resolve(look_up_deadline_ms)
                self._fetching.validate(look_up_deadline_ms)
                self._fetching.send()
            retry_ms = self._core.next_retry_ms(time_ms)
            self._client.step(deadline_ms if retry_ms is None else min(deadline_ms, retry_ms))
            if now_ms() >= deadline_ms:
                return self._handed_out(self._core.take(self._config.max_poll_records))

    # -- commits --------------------------------------------------------------------------------------------------

    def commit_sync(self, offsets: Offsets | None = None, timeout_ms: int | None = None) -> None:
        """Commit the positions of all partitions, or these offsets (each is the offset of the next record to read).
        Raises KafkaError; it is a CommitFailedError if the member is no longer in its group."""
        group = self._the_group("commit_sync()")
        limit_ms = self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        group.commits.commit_sync(group.commits.positions() if offsets is None else _normal(offsets), limit_ms)

    def commit_async(self, offsets: Offsets | None = None, callback: CommitCallback | None = None) -> None:
        """The commit is tried once. `callback(offsets, error)` runs inside a later poll."""
        group = self._the_group("commit_async()")
        group.commits.commit_async(group.commits.positions() if offsets is None else _normal(offsets), callback)

    def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets of the group. None where nothing was ever committed."""
        limit_ms = self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        chosen = [TopicPartition(*each) for each in partitions]
        return self._the_group("committed()").commits.committed(chosen, limit_ms)

    def group_metadata(self) -> GroupMetadata:
        """The argument for `Producer.send_offsets_to_transaction`. With it, the coordinator fences a member of an older
        generation."""
        return self._the_group("group_metadata()").group_metadata()

    # -- offsets and topics ---------------------------------------------------------------------------------------

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The high watermark of each partition: the offset after the last record that consumers can see. With
        isolation.level=read_committed it is the last stable offset: the end of the log before the first open
        transaction."""
        return self._offsets(partitions, LATEST)

    def close(self, timeout_ms: int = _CLOSE_MS, *, leaves_group: bool | None = None) -> None:
        """Commits (with enable.auto.commit), leaves the group and ends, within about this time. A static member stays
        in the group unless `leaves_group` says otherwise (KIP-1092)."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._group is not None:
                self._group.close(timeout_ms, leaves_group)
        finally:
            self._client.close()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    # -- private --------------------------------------------------------------------------------------------------

    def _handed_out(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        return self._interceptors.on_consume(records) if self._interceptors and records else records

    def _offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        deadline_ms = now_ms() + self._config.default_api_timeout_ms
        chosen = [TopicPartition(*each) for each in partitions]
        return {each: self._fetching.look_up(each, timestamp, deadline_ms).offset for each in chosen}

    def _the_group(self, call: str) -> GroupSession:
        if self._group is None:
            raise _wrong_state(f"{call}: needs the property group.id")
        return self._group


def _wrong_state(message: str) -> KafkaError:
    return KafkaError(-1, message, name="LOCAL_STATE")


def _normal(offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
    return {TopicPartition(*each): OffsetAndMetadata(*at) for each, at in offsets.items()}
