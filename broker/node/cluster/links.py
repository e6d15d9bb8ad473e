"""Requests of this broker to other nodes over one kind of link. Requests to itself go to its own handler.

Owns: a channel for each node. It knows no API. The controller client and the requests between brokers use it; replica
fetchers have channels of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from broker.controller.image import MetadataImage
from broker.node.net.channel import Channel, ChannelError
from broker.node.net.dialling import Dialler
from broker.node.net.peers import LINK
from broker.node.net.principal import ANONYMOUS, Principal
from broker.node.process.logs import Logger
from broker.node.settings.config import NodeConfig
from broker.node.settings.values import Address
from broker.wire.apis import ApiKey, Listener
from broker.wire.messages import Message

if TYPE_CHECKING:
    from broker.wire.shapes.kinds import Asks

Reply = TypeVar("Reply")


class LocalRequest:
    """A request of this broker to its own controller, or to another handler of its own."""

    __slots__ = ("_log", "access", "api_key", "future", "listener", "listener_name", "message", "version")

    def __init__(
        self, *, api_key: ApiKey, message: Message, version: int, listener_name: str, log: Callable[[int, str], None]
    ) -> None:
        self.api_key, self.message, self.version = api_key, message, version
        self._log = log
        self.access = None
        self.listener, self.listener_name = Listener.CONTROLLER, listener_name
        self.future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    @property
    def client_id(self) -> str:
        return "self"

    @property
    def principal(self) -> Principal:
        return ANONYMOUS  # there is no client: requests of a broker to itself are neither authorized nor limited

    @property
    def peer_host(self) -> str:
        return ""  # the request comes from no address

    @property
    def is_open(self) -> bool:
        return not self.future.done()

    def respond(self, message: Message) -> None:
        if not self.future.done():
            self.future.set_result(message)

    def take_alone(self) -> None:
        return  # the request has no connection

    def fail(self, cause: str) -> None:
        self._log(self.api_key, cause)
        if not self.future.done():
            self.future.set_exception(ChannelError("the own handler failed"))


async def answer_of_own_handler(
    request: LocalRequest, handle: Callable[[LocalRequest], None], *, timeout_ms: int
) -> Message:
    """Waits for the answer of this node's own handler. Like a channel to another broker, it raises ChannelError."""
    handle(request)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await request.future
    except TimeoutError:
        raise ChannelError(f"{request.api_key.name}: the own handler did not answer in {timeout_ms} ms") from None


HandleLocally: TypeAlias = Callable[[LocalRequest], None]


class Links:
    """`name` is the name of the links in log lines and proxies. `listener_name` is the listener of requests to this
    node itself."""

    def __init__(
        self,
        *,
        name: str,
        node_id: int,
        listener_name: str,
        address: Callable[[int], Address | None],
        handle_locally: HandleLocally,
        logger: Logger,
        dialler: Dialler,
    ) -> None:
        self.dialler = dialler
        self._name, self._node_id, self._listener_name = name, node_id, listener_name
        self._address, self._handle_locally, self._logger = address, handle_locally, logger
        self._channels: dict[int, Channel] = {}

    async def call(
        self, node_id: int, api_key: ApiKey, version: int, message: Asks[Reply], *, timeout_ms: int
    ) -> Reply:
        """Raises ChannelError if there is no answer in time. Then it is unknown whether the peer acted."""
        if node_id != self._node_id:
            return await self._channel(node_id).request(api_key, version, message, timeout_ms=timeout_ms)
        request = LocalRequest(
            api_key=api_key,
            message=message,
            version=version,
            listener_name=self._listener_name,
            log=self._logger.handler_failed,
        )
        reply: Reply = await answer_of_own_handler(request, self._handle_locally, timeout_ms=timeout_ms)
        return reply

    def _channel(self, node_id: int) -> Channel:
        if node_id not in self._channels:
            self._channels[node_id] = Channel(
                name=f"{self._name}-{self._node_id}-{node_id}",
                address=lambda: self._address(node_id),
                client_id=f"{LINK}{self._node_id}",
                logger=self._logger,
                dialler=self.dialler,
            )
        return self._channels[node_id]

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()


def internal_address(config: NodeConfig, image: MetadataImage, broker_id: int) -> Address | None:
    """The address of a broker: the configured route of this link if there is one, else the address that the broker
    registered."""
    if broker_id in config.own.harness_routes_internal:
        return config.own.harness_routes_internal[broker_id]
    registration = image.brokers.get(broker_id)
    endpoint = None if registration is None else registration.endpoints.get(config.listening.internal_listener)
    return None if endpoint is None else Address(host=endpoint.host, port=endpoint.port)
