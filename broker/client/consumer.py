"""The reference consumer: assigned partitions, or a member of a group. Records are fetched inside `poll`, without a
thread; a `group.id` adds one for the group (member_thread.py), so that heartbeats go on while the application works.

Owns: the loop that fetches from leaders and looks offsets up. Decisions are in core/fetcher.py, groups in
group_session.py. To be used by one thread at a time; `wakeup` alone may be called from any.
Shown by tests/broker_client/test_client_mock_cluster.py and test_client_groups.py.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from broker.client.blocking import BlockingClient
from broker.client.client_settings import screen
from broker.client.clock import now_ms
from broker.client.core.batch import TopicPartition
from broker.client.core.config import as_properties, parse_consumer
from broker.client.core.errors import KafkaError, TimedOutError, WakeupError
from broker.client.core.fetcher import (
    BY_DURATION,
    EARLIEST,
    LATEST,
    ConsumerRecord,
    FetcherCore,
    FetchPosition,
)
from broker.client.core.metadata import TopicState
from broker.client.core.transactions import GroupMetadata, OffsetAndMetadata
from broker.client.group_session import CommitCallback, GroupSession, Offsets, RebalanceListener
from broker.client.interceptors import ConsumerInterceptor, ConsumerInterceptors
from broker.client.metrics import ConsumerMetrics, group_snapshot
from broker.client.network import Answered, Lost, NetworkEvent
from broker.client.offsets import epoch_end_offset, list_offset
from broker.client.protocol import HIGHEST, fetch_request, fetch_results, metadata_answer, metadata_request
from broker.client.questions import FoundOffset
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import error_of

if TYPE_CHECKING:
    from broker.wire.shapes.fetch import FetchRequest, FetchResponse
    from broker.wire.shapes.metadata import MetadataResponse

_METADATA = "metadata"
ISOLATION_LEVELS = {"read_uncommitted": 0, "read_committed": 1}
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
        self._client = BlockingClient(self._config, rng, self._on_event)
        self._isolation_level = ISOLATION_LEVELS[self._config.isolation_level]
        self._core = FetcherCore(self._config, self._client.metadata, rng)
        self._metrics = ConsumerMetrics()
        self._is_woken = False
        self._is_closed = False
        self._group: GroupSession | None = None
        if self._config.has_group:
            own = random.Random(rng.getrandbits(64))  # only for the group's thread
            self._group = GroupSession(
                self._config,
                self._core,
                self._client.metadata,
                self._metrics,
                own,
                self._client.network.wake,
                self._interceptors,
            )

    def effective_properties(self) -> dict[str, str]:
        return as_properties(self._config)

    # -- what to read ---------------------------------------------------------------------------------------------

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others, without being a member of the group. Cannot be used together with
        `subscribe`."""
        if self._group is not None and self._group.is_subscribed:
            raise _wrong_state("assign(): the consumer is subscribed; unsubscribe() first")
        chosen = [TopicPartition(*each) for each in partitions]
        for partition in chosen:
            self._client.metadata.use_topic(partition.topic, now_ms())
        self._core.assign(chosen)

    def subscribe(self, topics: Iterable[str] | re.Pattern[str], listener: RebalanceListener | None = None) -> None:
        """Names, or a pattern that must match a whole name. The group assigns the partitions, in later polls."""
        group = self._the_group("subscribe()")
        if isinstance(topics, str):
            raise _wrong_state(f"subscribe(): expected a list of topics or a compiled pattern, got {topics!r}")
        if not group.is_subscribed and self._core.assignment():
            raise _wrong_state("subscribe(): partitions are assigned; unsubscribe() first")
        group.subscribe(topics, listener)

    def unsubscribe(self) -> None:
        """Also ends what `assign` began."""
        if self._group is not None:
            self._group.unsubscribe()
        self._core.assign(())

    def subscription(self) -> frozenset[str]:
        return frozenset() if self._group is None else self._group.subscription()

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._core.assignment())

    def enforce_rebalance(self, reason: str = "the application asked for it") -> None:
        self._the_group("enforce_rebalance()").rejoin(reason)

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these until `resume`. They stay assigned."""
        self._core.pause([TopicPartition(*each) for each in partitions])

    def resume(self, *partitions: TopicPartition) -> None:
        self._core.resume([TopicPartition(*each) for each in partitions])

    def paused(self) -> frozenset[TopicPartition]:
        return self._core.paused()

    # -- where to read --------------------------------------------------------------------------------------------

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        """`leader_epoch` is the epoch of the record before, if known. The position is then validated (KIP-320)."""
        if offset < 0:
            raise _wrong_state(f"seek(): expected an offset from 0 on, got {offset}")
        self._core.seek(TopicPartition(*partition), offset, leader_epoch)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Of these partitions, or of all assigned ones. Looked up at the next poll."""
        for partition in partitions or self._core.assignment():
            self._core.seek_to(TopicPartition(*partition), EARLIEST)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        for partition in partitions or self._core.assignment():
            self._core.seek_to(TopicPartition(*partition), LATEST)

    def position(self, partition: TopicPartition) -> int:
        """Offset of the next record `poll` will return; looks it up if need be, within default.api.timeout.ms."""
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
            self._resolve(deadline_ms)
            self._client.step(now_ms() + self._config.retry_backoff_ms)

    def current_lag(self, partition: TopicPartition) -> int | None:
        """Records between the position and the high watermark that the last fetch told; None before the first."""
        return self._core.lags().get(TopicPartition(*partition))

    def poll(self, timeout_ms: int = 0) -> list[ConsumerRecord]:
        """Up to max.poll.records records; waits at most `timeout_ms` for the first. Raises KafkaError.

        Rebalances happen in here: the listener and callbacks of commits are called from here.
        """
        if self._is_closed:
            raise _wrong_state("poll(): the consumer is closed")
        time_ms = now_ms()
        deadline_ms = time_ms + timeout_ms
        self._metrics.on_poll(time_ms)
        group = self._group
        while True:
            if self._is_woken:
                self._is_woken = False
                raise WakeupError
            if group is not None:
                group.on_poll()
            records = self._core.take(self._config.max_poll_records)
            self._send_fetches()
            if records:
                self._client.step(0)  # read what has arrived, without waiting
                return self._handed_out(records)
            time_ms = now_ms()
            if self._core.resets(time_ms) or self._core.validations(time_ms):
                look_up_deadline_ms = max(deadline_ms, time_ms + _LOOK_UP_MS)
                self._resolve(look_up_deadline_ms)
                self._validate(look_up_deadline_ms)
                self._send_fetches()
            retry_ms = self._core.next_retry_ms(time_ms)
            self._client.step(deadline_ms if retry_ms is None else min(deadline_ms, retry_ms))
            if now_ms() >= deadline_ms:
                return self._handed_out(self._core.take(self._config.max_poll_records))

    def wakeup(self) -> None:
        """May be called from any thread: a poll that runs, or else the next one, raises WakeupError."""
        self._is_woken = True
        self._client.network.wake()

    # -- commits --------------------------------------------------------------------------------------------------

    def commit_sync(self, offsets: Offsets | None = None, timeout_ms: int | None = None) -> None:
        """The positions of all partitions, or these offsets (of the next record to read). Raises KafkaError, a
        CommitFailedError when the member is out of its group."""
        group = self._the_group("commit_sync()")
        limit_ms = self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        group.commit_sync(group.positions() if offsets is None else _normal(offsets), limit_ms)

    def commit_async(self, offsets: Offsets | None = None, callback: CommitCallback | None = None) -> None:
        """Tried once; `callback(offsets, error)` runs inside a later poll."""
        group = self._the_group("commit_async()")
        group.commit_async(group.positions() if offsets is None else _normal(offsets), callback)

    def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Of the group; None where nothing was ever committed."""
        limit_ms = self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        chosen = [TopicPartition(*each) for each in partitions]
        return self._the_group("committed()").committed(chosen, limit_ms)

    def group_metadata(self) -> GroupMetadata:
        """For `Producer.send_offsets_to_transaction`; fences a member of an older generation."""
        return self._the_group("group_metadata()").group_metadata()

    # -- offsets and topics ---------------------------------------------------------------------------------------

    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, FoundOffset | None]:
        """The first record of each that is not older; None if there is none."""
        deadline_ms = now_ms() + self._config.default_api_timeout_ms
        found = {}
        for each, timestamp_ms in timestamps_ms.items():
            if timestamp_ms < 0:
                raise _wrong_state(f"offsets_for_times(): expected a time in ms from 0 on, got {timestamp_ms}")
            partition = TopicPartition(*each)
            answer = list_offset(self._client, partition, timestamp_ms, deadline_ms, self._isolation_level)
            found[partition] = answer if answer.offset >= 0 else None
        return found

    def partitions_for(self, topic: str) -> TopicState:
        """Leader, replicas and ISR of each partition. Raises UNKNOWN_TOPIC_OR_PARTITION."""
        return self.list_topics([topic])[topic]

    def list_topics(self, names: Sequence[str] | None = None) -> dict[str, TopicState]:
        answer = self._client.fetch_metadata(names, now_ms() + self._config.default_api_timeout_ms)
        for topic in answer.topics:
            if names is not None and topic.error_code and not topic.partitions:
                raise KafkaError(topic.error_code, f"topic {topic.name!r}")
        return {topic.name: topic for topic in answer.topics}

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._offsets(partitions, EARLIEST)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The high watermark of each: the offset after the last record that consumers can see. With
        isolation.level=read_committed the last stable offset: before the first transaction that is not decided."""
        return self._offsets(partitions, LATEST)

    def metrics(self) -> dict[str, float]:
        """Kafka's names; `records-lag:<topic>-<partition>` is `records-lag` of one partition."""
        time_ms = now_ms()
        lags = self._core.lags()
        found = self._metrics.snapshot(time_ms, lags, self._core.leads())
        found |= {f"records-lag:{each.topic}-{each.partition}": float(lag) for each, lag in lags.items()}
        if self._group is not None:
            found |= group_snapshot(self._group.thread.core.counters, time_ms, len(self._core.assignment()))
        return found

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

    # -- inside ---------------------------------------------------------------------------------------------------

    def _handed_out(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        self._metrics.records_consumed_total += len(records)
        return self._interceptors.on_consume(records) if self._interceptors and records else records

    def _offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        deadline_ms = now_ms() + self._config.default_api_timeout_ms
        chosen = [TopicPartition(*each) for each in partitions]
        level = self._isolation_level
        return {each: list_offset(self._client, each, timestamp, deadline_ms, level)[0] for each in chosen}

    def _the_group(self, call: str) -> GroupSession:
        if self._group is None:
            raise _wrong_state(f"{call}: needs the property group.id")
        return self._group

    def _resolve(self, deadline_ms: int) -> None:
        for partition, timestamp in self._core.resets(now_ms()).items():
            try:
                found = self._reset_offset(partition, timestamp, deadline_ms)
            except KafkaError as error:
                if not error.retriable and not isinstance(error, TimedOutError):
                    raise
                self._core.on_look_up_failed(partition, now_ms())
            else:
                self._core.on_reset(partition, found.offset, found.leader_epoch)

    def _reset_offset(self, partition: TopicPartition, timestamp: int, deadline_ms: int) -> FoundOffset:
        duration_ms = self._config.reset_duration_ms
        if timestamp == BY_DURATION and duration_ms is not None:
            since_ms = max(0, round(time.time() * 1000) - duration_ms)
            found = list_offset(self._client, partition, since_ms, deadline_ms, self._isolation_level)
            if found.offset >= 0:
                return found
            timestamp = LATEST  # all records are older than that (KIP-1106)
        return list_offset(self._client, partition, timestamp, deadline_ms, self._isolation_level)

    def _validate(self, deadline_ms: int) -> None:
        """Ask new leaders whether what was read before is still there. If the answer comes from a still later epoch,
        the metadata now knows that epoch, and the question is asked once more."""
        for partition, asked in self._core.validations(now_ms()).items():
            try:
                end = epoch_end_offset(self._client, partition, asked.offset_epoch, deadline_ms)
            except KafkaError as error:
                if error.code == ErrorCode.unsupported_version:
                    self._core.on_validation_unsupported(partition, asked)
                    continue
                if not error.retriable and not isinstance(error, TimedOutError):
                    raise
                self._core.on_look_up_failed(partition, now_ms())
            else:
                self._core.on_validated(partition, asked, *end, now_ms())

    def _send_fetches(self) -> None:
        self._refresh_metadata()
        for node, plan in self._core.plan(now_ms()).items():
            network = self._client.network
            if not network.is_ready(node):
                network.connect(node)
                continue
            version = network.version(node, ApiKey.FETCH, HIGHEST[ApiKey.FETCH])
            if version is None:
                raise KafkaError(
                    ErrorCode.unsupported_version, f"broker {node} offers no version of FETCH that we speak"
                )
            self._core.on_sent(node, plan)
            timeout_ms = self._config.request_timeout_ms + self._config.fetch_max_wait_ms
            message = self._fetch_request(version, plan)
            network.send(node, ApiKey.FETCH, version, message, ("fetch", node), timeout_ms=timeout_ms)

    def _fetch_request(self, version: int, plan: Mapping[TopicPartition, FetchPosition]) -> FetchRequest:
        config = self._config
        return fetch_request(
            version,
            plan,
            max_wait_ms=config.fetch_max_wait_ms,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            partition_max_bytes=config.max_partition_fetch_bytes,
            isolation_level=self._isolation_level,
        )

    def _refresh_metadata(self) -> None:
        """Ask if a refresh is due, without waiting for the answer."""
        metadata = self._client.metadata
        due_ms = metadata.next_request_ms()
        if due_ms is None or now_ms() < due_ms:
            return
        node = self._client.network.any_ready()
        if node is None:
            return
        version = self._client.network.version(node, ApiKey.METADATA, HIGHEST[ApiKey.METADATA])
        if version is None:
            raise KafkaError(
                ErrorCode.unsupported_version, f"broker {node} offers no version of METADATA that we speak"
            )
        topics: list[str] | None = metadata.on_request(now_ms())
        if self._group is not None and self._group.wants_all_topics:
            topics = None
        message = metadata_request(version, topics, auto_create=self._config.allow_auto_create_topics)
        self._client.network.send(node, ApiKey.METADATA, version, message, (_METADATA, node))

    def _on_event(self, event: NetworkEvent) -> None:
        if isinstance(event, Answered):
            kind, node = event.context
            if kind == _METADATA:
                self._on_metadata(event.message)
            else:
                self._on_fetched(node, event.message, event.latency_ms)
        elif isinstance(event, Lost):
            contexts: tuple[Any, ...] = (*event.unanswered, *event.unsent)
            if (_METADATA, event.node) in contexts:
                self._client.metadata.on_failure(now_ms())
            self._core.on_failed(event.node, now_ms())

    def _on_metadata(self, message: MetadataResponse) -> None:
        answer = metadata_answer(message)
        if not answer.brokers:
            self._client.metadata.on_failure(now_ms())
            return
        if self._group is not None and self._group.wants_all_topics:
            accepts = self._group.accepts_topic
            answer = replace(answer, topics=tuple(each for each in answer.topics if accepts(each.name)))
        self._client.metadata.on_answer(answer, now_ms())
        self._client.network.update_nodes(answer.brokers)

    def _on_fetched(self, node: int, message: FetchResponse, latency_ms: float) -> None:
        if error_of(message) is not ErrorCode.none:
            self._core.on_failed(node, now_ms())
            return
        results = fetch_results(message)
        self._metrics.on_fetch(latency_ms, sum([len(each.records) for each in results.values()]))
        self._core.on_answer(node, results, now_ms())


def _wrong_state(message: str) -> KafkaError:
    return KafkaError(-1, message, name="LOCAL_STATE")


def _normal(offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
    return {TopicPartition(*each): OffsetAndMetadata(*at) for each, at in offsets.items()}
