"""The requests of a share consumer while it reads: metadata, ShareFetch and ShareAcknowledge.

Owns: the connections and the core, which decides. Shown by tests/broker_node/test_node_share_consumer.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from broker.client.blocking import BlockingClient
from broker.client.clock import now_ms
from broker.client.core.errors import KafkaError
from broker.client.core.shares.config import ShareConsumerConfig
from broker.client.core.shares.fetcher import ShareFetcher
from broker.client.core.shares.values import ShareRequest
from broker.client.network import Answered, Lost, NetworkEvent
from broker.client.protocol import HIGHEST
from broker.client.refreshing import METADATA, Refreshing
from broker.client.share_requests import (
    acknowledged,
    api_of,
    fetched,
    share_acknowledge_request,
    share_fetch_request,
)
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode

_FETCH, _ACKNOWLEDGE = "fetch", "acknowledge"


class ShareFetching:
    def __init__(self, config: ShareConsumerConfig, rng: random.Random) -> None:
        self._config = config
        self.client = BlockingClient(config, rng, self._on_event)
        self.core = ShareFetcher(config, self.client.metadata, rng)
        # When the oldest request was sent whose records wait, or were taken last. None: no records came.
        self.asked_ms: int | None = None
        self._sent_ms: dict[int, int] = {}
        self._refreshing = Refreshing(self.client, auto_create=config.allow_auto_create_topics)

    def send(self, member_id: str, *, wants_records: bool) -> None:
        """Sends the requests that are due."""
        self._refreshing.send_due()
        self._send_all(member_id, self.core.plan(now_ms(), wants_records=wants_records))

    def close_sessions(self, member_id: str, deadline_ms: int, is_over: Callable[[], bool]) -> None:
        """Sends what waits, and ends the sessions, so that the brokers release what this member still holds."""
        while self.core.open_sessions and now_ms() < deadline_ms and not is_over():
            self._send_all(member_id, self.core.plan_close())
            self.client.advance(deadline_ms)

    def _send_all(self, member_id: str, plans: Mapping[int, ShareRequest]) -> None:
        network = self.client.network
        for node, asked in plans.items():
            if not network.is_ready(node):
                network.connect(node)
                continue
            api_key = api_of(asked)
            version = network.version(node, api_key, HIGHEST[api_key])
            if version is None:
                text = f"broker {node} offers no version of {api_key.name} that we speak"
                raise KafkaError(ErrorCode.unsupported_version, text)
            self.core.on_sent(node, asked)
            if api_key is ApiKey.SHARE_FETCH:
                timeout_ms = self._config.request_timeout_ms + self._config.fetch_max_wait_ms
                self._sent_ms[node] = now_ms()
                fetch = share_fetch_request(version, self._config, member_id, asked)
                network.send(node, api_key, version, fetch, (_FETCH, node), timeout_ms=timeout_ms)
                continue
            try:
                acknowledge = share_acknowledge_request(version, self._config, member_id, asked)
            except KafkaError as error:
                self.core.on_failed(node, error, now_ms())
                raise
            network.send(node, api_key, version, acknowledge, (_ACKNOWLEDGE, node))

    def _on_event(self, event: NetworkEvent) -> None:
        if isinstance(event, Answered):
            kind, node = event.context
            if kind == METADATA:
                self._refreshing.on_answer(event.message)
                return
            answer = fetched(event.message) if kind == _FETCH else acknowledged(event.message)
            if kind == _FETCH and any(part.acquired for part in answer.parts.values()):
                sent_ms = self._sent_ms[node]
                self.asked_ms = sent_ms if self.asked_ms is None else min(self.asked_ms, sent_ms)
            self.core.on_answer(node, answer, now_ms())
        elif isinstance(event, Lost):
            self._refreshing.on_lost((*event.unanswered, *event.unsent), event.node)
            is_sent = any(context in ((_FETCH, event.node), (_ACKNOWLEDGE, event.node)) for context in event.unanswered)
            error = KafkaError(ErrorCode.network_exception, event.reason, definite=not is_sent)
            self.core.on_failed(event.node, error, now_ms())
