"""The requests of a consumer while it reads: metadata, fetches, and look-ups of its positions.

Owns: the connections and the core of the fetcher, which decides. Only the look-ups of positions wait for answers. Shown
by tests/broker_client/test_client_mock_cluster.py.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker.client.blocking import BlockingClient
from broker.client.clock import now_ms
from broker.client.core.batch import TopicPartition
from broker.client.core.config import ConsumerConfig
from broker.client.core.errors import KafkaError, TimedOutError
from broker.client.core.fetch_state import BY_DURATION, LATEST, FetchPosition
from broker.client.core.fetcher import FetcherCore
from broker.client.network import Answered, Lost, NetworkEvent
from broker.client.offsets import epoch_end_offset, list_offset
from broker.client.protocol import HIGHEST, fetch_request, fetch_results
from broker.client.questions import FoundOffset
from broker.client.refreshing import METADATA, Refreshing
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import error_of

if TYPE_CHECKING:
    from broker.wire.shapes.fetch import FetchRequest, FetchResponse

_ISOLATION_LEVELS = {"read_uncommitted": 0, "read_committed": 1}


class Fetching:
    def __init__(self, config: ConsumerConfig, rng: random.Random) -> None:
        self._config = config
        self._isolation_level = _ISOLATION_LEVELS[config.isolation_level]
        self.client = BlockingClient(config, rng, self._on_event)
        self.core = FetcherCore(config, self.client.metadata, rng)
        self._refreshing = Refreshing(self.client, auto_create=config.allow_auto_create_topics)

    def look_up(self, partition: TopicPartition, timestamp_ms: int, deadline_ms: int) -> FoundOffset:
        """The offset for a time in ms, EARLIEST or LATEST, according to isolation.level."""
        return list_offset(self.client, partition, timestamp_ms, deadline_ms, self._isolation_level)

    def resolve(self, deadline_ms: int) -> None:
        for partition, timestamp in self.core.resets(now_ms()).items():
            try:
                found = self._reset_offset(partition, timestamp, deadline_ms)
            except KafkaError as error:
                if not error.retriable and not isinstance(error, TimedOutError):
                    raise
                self.core.on_look_up_failed(partition, now_ms())
            else:
                self.core.on_reset(partition, found.offset, found.leader_epoch)

    def _reset_offset(self, partition: TopicPartition, timestamp: int, deadline_ms: int) -> FoundOffset:
        duration_ms = self._config.reset_duration_ms
        if timestamp == BY_DURATION and duration_ms is not None:
            since_ms = max(0, round(time.time() * 1000) - duration_ms)
            found = self.look_up(partition, since_ms, deadline_ms)
            if found.offset >= 0:
                return found
            timestamp = LATEST  # all records are older than this time (KIP-1106)
        return self.look_up(partition, timestamp, deadline_ms)

    def validate(self, deadline_ms: int) -> None:
        """Asks new leaders whether the records that were read before are still there. If the leader has a still later
        epoch, the metadata now knows that epoch, and the question is asked once more."""
        for partition, asked in self.core.validations(now_ms()).items():
            try:
                end = epoch_end_offset(self.client, partition, asked.offset_epoch, deadline_ms)
            except KafkaError as error:
                if error.code == ErrorCode.unsupported_version:
                    self.core.on_validation_unsupported(partition, asked)
                    continue
                if not error.retriable and not isinstance(error, TimedOutError):
                    raise
                self.core.on_look_up_failed(partition, now_ms())
            else:
                self.core.on_validated(partition, asked, *end, now_ms())

    def send(self) -> None:
        self._refreshing.send_due()
        for node, plan in self.core.plan(now_ms()).items():
            network = self.client.network
            if not network.is_ready(node):
                network.connect(node)
                continue
            version = network.version(node, ApiKey.FETCH, HIGHEST[ApiKey.FETCH])
            if version is None:
                raise KafkaError(
                    ErrorCode.unsupported_version, f"broker {node} offers no version of FETCH that we speak"
                )
            self.core.on_sent(node, plan)
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
            rack=config.client_rack,
        )

    def _on_event(self, event: NetworkEvent) -> None:
        if isinstance(event, Answered):
            kind, node = event.context
            if kind == METADATA:
                self._refreshing.on_answer(event.message)
            else:
                self._on_fetched(node, event.message)
        elif isinstance(event, Lost):
            self._refreshing.on_lost((*event.unanswered, *event.unsent), event.node)
            self.core.on_failed(event.node, now_ms())

    def _on_fetched(self, node: int, message: FetchResponse) -> None:
        if error_of(message) is not ErrorCode.none:
            self.core.on_failed(node, now_ms())
            return
        self.core.on_answer(node, fetch_results(message), now_ms())
