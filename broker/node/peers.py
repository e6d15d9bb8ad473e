"""Requests of this broker to another one, over the internal link: transaction markers and verifications.

A request to itself goes to the own handler. Knows no API. Replica fetchers have channels of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.controller.image import MetadataImage
from broker.node.channel import Channel
from broker.node.config import Address, NodeConfig
from broker.node.control import LocalRequest, answer_of_own_handler
from broker.node.logs import Logger
from broker.wire.apis import ApiKey
from broker.wire.messages import Message


class Peers:
    def __init__(
        self,
        *,
        config: NodeConfig,
        image: Callable[[], MetadataImage],
        logger: Logger,
        handle_locally: Callable[[ApiKey, LocalRequest], None],
    ) -> None:
        self._config, self._image, self._logger = config, image, logger
        self._handle_locally = handle_locally
        self._channels: dict[int, Channel] = {}

    async def call(
        self, broker_id: int, api_key: ApiKey, version: int, message: Message, *, timeout_ms: int
    ) -> Message:
        """Raises ChannelError: no answer in time; whether the peer acted is unknown."""
        if broker_id != self._config.node_id:
            return await self._channel(broker_id).request(api_key, version, message, timeout_ms=timeout_ms)
        request = LocalRequest(
            api_key=api_key,
            message=message,
            version=version,
            listener_name=self._config.internal_listener,
            log=self._logger.handler_failed,
        )
        return await answer_of_own_handler(request, self._handle_locally, timeout_ms=timeout_ms)

    def _channel(self, broker_id: int) -> Channel:
        if broker_id not in self._channels:
            self._channels[broker_id] = Channel(
                name=f"internal-{self._config.node_id}-{broker_id}",
                address=lambda: self._address(broker_id),
                client_id=f"broker-{self._config.node_id}",
                logger=self._logger,
            )
        return self._channels[broker_id]

    def _address(self, broker_id: int) -> Address | None:
        """The route of the ordered link if there is one; else what the broker registered."""
        if broker_id in self._config.harness_routes_internal:
            return self._config.harness_routes_internal[broker_id]
        registration = self._image().brokers.get(broker_id)
        endpoint = None if registration is None else registration.endpoints.get(self._config.internal_listener)
        return None if endpoint is None else Address(host=endpoint.host, port=endpoint.port)

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()
