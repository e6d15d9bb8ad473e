"""How this broker talks to the active controller, which may be itself.

`call` finds the controller, sends a request over the CONTROLLER listener (or hands it to the own handler when this node
leads) and follows a change of controller until the time limit. Used for registration, heartbeats, AlterPartition,
AllocateProducerIds and the client requests that are forwarded.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import ParamSpec, Protocol

from broker.node.channel import Channel, ChannelError
from broker.node.clock import monotonic_ms
from broker.node.config import NodeConfig
from broker.node.logs import Logger
from broker.node.metadata import MetadataHost
from broker.wire.apis import ApiKey, Listener
from broker.wire.errors import ErrorCode
from broker.wire.messages import Message

RETRY_MS = 50


class AnyRequest(Protocol):
    """What a handler sees of a request: one that came over a connection, or one of our own."""

    message: Message
    listener: Listener
    listener_name: str

    @property
    def version(self) -> int: ...
    @property
    def client_id(self) -> str: ...
    @property
    def is_open(self) -> bool: ...
    def respond(self, message: Message) -> None: ...
    def take_alone(self) -> None:
        """Take no other request of its connection before this one is answered."""

    def fail(self, cause: str) -> None:
        """We failed at it: it gets no answer, and its peer learns so at once. `cause` is for the log."""


P = ParamSpec("P")


def guarded(request: AnyRequest, callback: Callable[P, None]) -> Callable[P, None]:
    """`callback`, which answers `request` from within another part: its exception costs that request only, not those
    that the other part was about to serve. The door for what is called later; see `Broker.dispatch` and `serve`."""

    def call(*arguments: P.args, **named: P.kwargs) -> None:
        try:
            callback(*arguments, **named)
        except Exception:
            request.fail(traceback.format_exc())

    return call


class LocalRequest:
    """A request of this broker to its own controller, or to another handler of its own."""

    __slots__ = ("_log", "api_key", "future", "listener", "listener_name", "message", "version")

    def __init__(
        self, *, api_key: ApiKey, message: Message, version: int, listener_name: str, log: Callable[[int, str], None]
    ) -> None:
        self.api_key, self.message, self.version = api_key, message, version
        self._log = log
        self.listener, self.listener_name = Listener.CONTROLLER, listener_name
        self.future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    @property
    def client_id(self) -> str:
        return "self"

    @property
    def is_open(self) -> bool:
        return not self.future.done()

    def respond(self, message: Message) -> None:
        if not self.future.done():
            self.future.set_result(message)

    def take_alone(self) -> None:
        return  # it has no connection

    def fail(self, cause: str) -> None:
        self._log(self.api_key, cause)
        if not self.future.done():
            self.future.set_exception(ChannelError("the own handler failed"))


async def answer_of_own_handler(
    request: LocalRequest, handle: Callable[[ApiKey, LocalRequest], None], *, timeout_ms: int
) -> Message:
    """Raises ChannelError, as a channel to another broker does."""
    handle(request.api_key, request)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await request.future
    except TimeoutError:
        raise ChannelError(f"{request.api_key.name}: the own handler did not answer in {timeout_ms} ms") from None


def _nothing() -> None:
    return None


_PARTS = ("topics", "responses", "results", "entries")


def is_not_controller(response: Message) -> bool:
    """NOT_CONTROLLER at the top, or in a part where the API has no top-level code."""
    if getattr(response, "error_code", ErrorCode.none) is ErrorCode.not_controller:
        return True
    parts = next((found for name in _PARTS if (found := getattr(response, name, None))), ())
    return any(getattr(part, "error_code", None) is ErrorCode.not_controller for part in parts)


class ControllerClient:
    def __init__(
        self,
        *,
        config: NodeConfig,
        metadata: MetadataHost,
        logger: Logger,
        handle_locally: Callable[[ApiKey, LocalRequest], None],
    ) -> None:
        self._config, self._metadata, self._logger = config, metadata, logger
        self._handle_locally = handle_locally
        self._channels: dict[int, Channel] = {}

    async def call_once(self, api_key: ApiKey, version: int, message: Message, *, timeout_ms: int) -> Message:
        """Ask whom we believe to be the controller. Raises ChannelError: no controller, or no answer in time."""
        leader_id = self._metadata.leader_id
        if leader_id < 0:
            raise ChannelError("no controller is known")
        if leader_id != self._config.node_id:
            return await self._channel(leader_id).request(api_key, version, message, timeout_ms=timeout_ms)
        request = LocalRequest(
            api_key=api_key,
            message=message,
            version=version,
            listener_name=self._config.controller_listener,
            log=self._logger.handler_failed,
        )
        return await answer_of_own_handler(request, self._handle_locally, timeout_ms=timeout_ms)

    async def call(
        self,
        api_key: ApiKey,
        version: int,
        message: Message,
        *,
        timeout_ms: int,
        on_repeat: Callable[[], object] = _nothing,
    ) -> Message:
        """As `call_once`, but asks again until the time limit when the controller moved. Raises ChannelError.

        A request whose answer was lost may be sent twice, and a controller that resigns refuses what its successor may
        find in its log: callers ask only for what may happen twice, or are told of each repetition by `on_repeat`.
        """
        deadline_ms = monotonic_ms() + timeout_ms
        while True:
            left_ms = deadline_ms - monotonic_ms()
            is_asked = self._metadata.leader_id >= 0
            try:
                attempt_ms = min(left_ms, self._config.controller_quorum_request_timeout_ms)
                response = await self.call_once(api_key, version, message, timeout_ms=max(1, attempt_ms))
                if not is_not_controller(response):
                    return response
                cause = "not the controller"
            except ChannelError as error:
                cause = str(error)
            if monotonic_ms() + RETRY_MS >= deadline_ms:
                raise ChannelError(f"{api_key.name}: {cause}")
            await asyncio.sleep(RETRY_MS / 1000)
            if is_asked:
                on_repeat()

    def _channel(self, node_id: int) -> Channel:
        if node_id not in self._channels:
            self._channels[node_id] = Channel(
                name=f"controller-{self._config.node_id}-{node_id}",
                address=lambda: self._metadata.controller_address(node_id),
                client_id=f"broker-{self._config.node_id}",
                logger=self._logger,
            )
        return self._channels[node_id]

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()
