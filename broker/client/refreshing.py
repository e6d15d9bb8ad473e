"""Metadata refreshes of a consumer. A request is sent when one is due, and nothing waits for its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.client.blocking import BlockingClient
from broker.client.clock import now_ms
from broker.client.core.errors import KafkaError
from broker.client.protocol import HIGHEST, metadata_answer, metadata_request
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode

if TYPE_CHECKING:
    from broker.wire.shapes.metadata import MetadataResponse

METADATA = "metadata"


class Refreshing:
    """The context of a request is (METADATA, node)."""

    def __init__(self, client: BlockingClient, *, auto_create: bool) -> None:
        self._client, self._auto_create = client, auto_create

    def send_due(self) -> None:
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
        message = metadata_request(version, metadata.on_request(now_ms()), auto_create=self._auto_create)
        self._client.network.send(node, ApiKey.METADATA, version, message, (METADATA, node))

    def on_lost(self, contexts: tuple[object, ...], node: int) -> None:
        if (METADATA, node) in contexts:
            self._client.metadata.on_failure(now_ms())

    def on_answer(self, message: MetadataResponse) -> None:
        answer = metadata_answer(message)
        if not answer.brokers:
            self._client.metadata.on_failure(now_ms())
            return
        self._client.metadata.on_answer(answer, now_ms())
        self._client.network.update_nodes(answer.brokers)
