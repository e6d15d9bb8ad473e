"""The client of this broker for the active controller, which may be this node itself.

`call` finds the controller, sends a request over the CONTROLLER listener (or gives it to this node's own handler if
this node leads) and follows a change of controller until the time limit. It is used for registration, heartbeats,
AlterPartition, AllocateProducerIds and the client requests that are forwarded. outgoing.py gives each kind a client
with a connection of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from broker.node.cluster.links import Links
from broker.node.cluster.metadata import MetadataHost
from broker.node.net.channel import ChannelError
from broker.node.process.clock import monotonic_ms
from broker.node.settings.sections.cluster import QuorumSettings
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode

if TYPE_CHECKING:
    from broker.wire.shapes.kinds import Asks

Reply = TypeVar("Reply")

RETRY_MS = 50


def nothing() -> None:
    return None


_PARTS = ("topics", "responses", "results", "entries", "filter_results")


def is_not_controller(response: object) -> bool:
    """Whether the answer is NOT_CONTROLLER: at its top, or in a part if the API has no error code at the top."""
    if getattr(response, "error_code", ErrorCode.none) is ErrorCode.not_controller:
        return True
    parts = next((found for name in _PARTS if (found := getattr(response, name, None))), ())
    return any(getattr(part, "error_code", None) is ErrorCode.not_controller for part in parts)


class ControllerClient:
    def __init__(
        self,
        *,
        settings: QuorumSettings,
        metadata: MetadataHost,
        links: Links,
    ) -> None:
        self._settings, self._metadata, self._links = settings, metadata, links

    async def call_once(self, api_key: ApiKey, version: int, message: Asks[Reply], *, timeout_ms: int) -> Reply:
        """Asks the node that is the controller as far as this node knows. Raises ChannelError if there is no
        controller, or no answer in time."""
        leader_id = self._metadata.leader_id
        if leader_id < 0:
            raise ChannelError("no controller is known")
        return await self._links.call(leader_id, api_key, version, message, timeout_ms=timeout_ms)

    async def call(
        self,
        api_key: ApiKey,
        version: int,
        message: Asks[Reply],
        *,
        timeout_ms: int,
        on_repeat: Callable[[], object] = nothing,
    ) -> Reply:
        """As `call_once`, but if the controller has changed, asks again until the time limit. Raises ChannelError.

        If an answer is lost, the request may be sent twice. A controller that resigns may refuse a request, and its
        successor may still find it in its log. So callers send only requests that may safely happen twice, or they pass
        `on_repeat`, which is called at each repetition.
        """
        deadline_ms = monotonic_ms() + timeout_ms
        while True:
            left_ms = deadline_ms - monotonic_ms()
            is_asked = self._metadata.leader_id >= 0
            try:
                attempt_ms = min(left_ms, self._settings.controller_quorum_request_timeout_ms)
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
