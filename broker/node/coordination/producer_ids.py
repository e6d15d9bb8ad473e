"""Producer ids of this broker. They come from a block that the controller allocated. No id is ever used twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.node.cluster.controller_client import ControllerClient
from broker.node.net.channel import ChannelError
from broker.node.settings.sections.cluster import QuorumSettings
from broker.wire.apis import ApiKey
from broker.wire.errors import ErrorCode
from broker.wire.messages import request

VERSION = 0


class ProducerIds:
    def __init__(self, *, settings: QuorumSettings, control: ControllerClient, broker_epoch: Callable[[], int]) -> None:
        self._settings, self._control, self._broker_epoch = settings, control, broker_epoch
        self._next, self._end = 0, 0  # the unused rest of the block
        self._lock = asyncio.Lock()

    async def take(self) -> int | None:
        """A new producer id. None if the controller cannot be asked now."""
        async with self._lock:
            if self._next >= self._end and not await self._allocate():
                return None
            self._next += 1
            return self._next - 1

    async def _allocate(self) -> bool:
        message = request(
            ApiKey.ALLOCATE_PRODUCER_IDS, VERSION, broker_id=self._settings.node_id, broker_epoch=self._broker_epoch()
        )
        timeout_ms = 2 * self._settings.controller_quorum_request_timeout_ms
        try:
            response = await self._control.call(ApiKey.ALLOCATE_PRODUCER_IDS, VERSION, message, timeout_ms=timeout_ms)
        except ChannelError:
            return False
        if response.error_code is not ErrorCode.none:
            return False
        self._next = response.producer_id_start
        self._end = response.producer_id_start + response.producer_id_len
        return True
