"""The reference consumer: assigned partitions, positions held by the caller. No thread: work is done inside `poll`.

Owns: the loop that fetches from leaders and looks offsets up. Decisions are in core/fetcher.py. Groups are not served
yet: a `group.id` is refused. One thread at a time.
Shown by tests/broker_client/test_client_mock_cluster.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from broker.client.blocking import BlockingClient
from broker.client.clock import now_ms
from broker.client.core.batch import TopicPartition
from broker.client.core.config import as_properties, parse_consumer
from broker.client.core.errors import KafkaError, TimedOutError
from broker.client.core.fetcher import EARLIEST, LATEST, ConsumerRecord, FetcherCore, FetchPosition, FetchResult
from broker.client.network import Answered, Lost, NetworkEvent
from broker.client.offsets import epoch_end_offset, list_offset
from broker.client.protocol import HIGHEST, by_topic, metadata_answer, metadata_request
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message, error_of, request

_METADATA = "metadata"
ISOLATION_LEVELS = {"read_uncommitted": 0, "read_committed": 1}
_LOOK_UP_MS = 1000  # a look-up of offsets may take this long even in poll(0), else it would never succeed


class Consumer:
    """See docs/contracts.md. `properties` are Kafka's consumer properties; an unknown one is an error."""

    def __init__(self, properties: Mapping[str, object], *, seed: int | None = None) -> None:
        self._config = parse_consumer(properties)
        rng = random.Random(seed)
        self._client = BlockingClient(self._config, rng, self._on_event)
        self._isolation_level = ISOLATION_LEVELS[self._config.isolation_level]
        self._core = FetcherCore(self._config, self._client.metadata, rng)

    def effective_properties(self) -> dict[str, str]:
        return as_properties(self._config)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        chosen = [TopicPartition(*each) for each in partitions]
        for partition in chosen:
            self._client.metadata.use_topic(partition.topic, now_ms())
        self._core.assign(chosen)

    def subscribe(self, topics: Sequence[str]) -> None:
        raise KafkaError(
            ErrorCode.unsupported_version,
            f"subscribe({list(topics)}): consumer groups are not served yet; use assign()",
        )

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._core.seek(TopicPartition(*partition), offset)

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
            position = self._core.position(chosen)
            if position is not None:
                return position
            if now_ms() >= deadline_ms or chosen not in self._core.resets(2**62):
                raise TimedOutError(
                    f"no position of {chosen.topic}-{chosen.partition}: seek first, or set a reset policy"
                )
            self._resolve(deadline_ms)
            self._client.step(now_ms() + self._config.retry_backoff_ms)

    def poll(self, timeout_ms: int = 0) -> list[ConsumerRecord]:
        """Up to max.poll.records records; waits at most `timeout_ms` for the first. Raises KafkaError."""
        deadline_ms = now_ms() + timeout_ms
        while True:
            records = self._core.take(self._config.max_poll_records)
            self._send_fetches()
            if records:
                self._client.step(0)  # move what has arrived meanwhile, without waiting
                return records
            time_ms = now_ms()
            if self._core.resets(time_ms) or self._core.validations(time_ms):
                look_up_deadline_ms = max(deadline_ms, time_ms + _LOOK_UP_MS)
                self._resolve(look_up_deadline_ms)
                self._validate(look_up_deadline_ms)
                self._send_fetches()
            retry_ms = self._core.next_retry_ms(time_ms)
            self._client.step(deadline_ms if retry_ms is None else min(deadline_ms, retry_ms))
            if now_ms() >= deadline_ms:
                return self._core.take(self._config.max_poll_records)

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._offsets(partitions, EARLIEST)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The high watermark of each: the offset after the last record that consumers can see. With
        isolation.level=read_committed the last stable offset: before the first transaction that is not decided."""
        return self._offsets(partitions, LATEST)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    # -- inside ---------------------------------------------------------------------------------------------------

    def _offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        deadline_ms = now_ms() + self._config.default_api_timeout_ms
        chosen = [TopicPartition(*each) for each in partitions]
        level = self._isolation_level
        return {each: list_offset(self._client, each, timestamp, deadline_ms, level)[0] for each in chosen}

    def _resolve(self, deadline_ms: int) -> None:
        for partition, timestamp in self._core.resets(now_ms()).items():
            try:
                found = list_offset(self._client, partition, timestamp, deadline_ms, self._isolation_level)
            except KafkaError as error:
                if not error.retriable and not isinstance(error, TimedOutError):
                    raise
                self._core.on_look_up_failed(partition, now_ms())
            else:
                self._core.on_reset(partition, found.offset, found.leader_epoch)

    def _validate(self, deadline_ms: int) -> None:
        """Ask new leaders whether what was read before is still there. If one of a still later epoch answered, the
        metadata knows that epoch now and it is asked once more."""
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

    def _fetch_request(self, version: int, plan: Mapping[TopicPartition, FetchPosition]) -> Message:
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
        topics = metadata.on_request(now_ms())
        message = metadata_request(version, topics, auto_create=False)
        self._client.network.send(node, ApiKey.METADATA, version, message, (_METADATA, node))

    def _on_event(self, event: NetworkEvent) -> None:
        if isinstance(event, Answered):
            kind, node = event.context
            if kind == _METADATA:
                self._on_metadata(event.message)
            else:
                self._on_fetched(node, event.message)
        elif isinstance(event, Lost):
            contexts: tuple[Any, ...] = (*event.unanswered, *event.unsent)
            if (_METADATA, event.node) in contexts:
                self._client.metadata.on_failure(now_ms())
            self._core.on_failed(event.node, now_ms())

    def _on_metadata(self, message: Message) -> None:
        answer = metadata_answer(message)
        if not answer.brokers:
            self._client.metadata.on_failure(now_ms())
            return
        self._client.metadata.on_answer(answer, now_ms())
        self._client.network.update_nodes(answer.brokers)

    def _on_fetched(self, node: int, message: Message) -> None:
        if error_of(message) is not ErrorCode.none:
            self._core.on_failed(node, now_ms())
            return
        self._core.on_answer(node, fetch_results(message), now_ms())


def fetch_request(
    version: int,
    plan: Mapping[TopicPartition, FetchPosition],
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    partition_max_bytes: int,
    isolation_level: int = 0,
) -> Message:
    """Without a session: each request names all its partitions."""
    entries: Iterable[tuple[TopicPartition, dict[str, object]]] = (
        (
            partition,
            {
                "partition": partition.partition,
                "current_leader_epoch": position.leader_epoch,
                "fetch_offset": position.offset,
                "last_fetched_epoch": -1,
                "log_start_offset": -1,
                "partition_max_bytes": partition_max_bytes,
            },
        )
        for partition, position in plan.items()
    )
    return request(
        ApiKey.FETCH,
        version,
        replica_id=-1,
        max_wait=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=0,
        session_epoch=-1,
        topics=by_topic(entries, name="topic"),
        forgotten_topics_data=(),
        rack_id="",
    )


def fetch_results(message: Message) -> dict[TopicPartition, FetchResult]:
    return {
        TopicPartition(topic.topic, each.partition_index): FetchResult(
            error_code=int(each.error_code),
            high_watermark=each.high_watermark,
            log_start_offset=getattr(each, "log_start_offset", -1),
            records=b"" if each.records is None else each.records,
            aborted=tuple([(one.producer_id, one.first_offset) for one in each.aborted_transactions or ()]),
        )
        for topic in message.responses
        for each in topic.partitions
    }
