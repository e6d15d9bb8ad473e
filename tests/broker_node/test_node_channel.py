"""The connection to a peer: what its time limits count, and that a peer that is back is reached again."""

from __future__ import annotations

import asyncio
import struct
import time

import pytest

from broker.node.net.channel import BACKOFF_MS_MAX, Channel, ChannelError
from broker.node.process.logs import Logger
from broker.node.settings.config import Address
from harness.clusters.ports import PortAllocator

pytestmark = pytest.mark.slow  # sockets, and seconds of backoff
TIMEOUT_MS = 300  # shorter than the longest backoff
ANSWERS_AFTER_S = 0.1


def frame(correlation_id: int, client_id: str) -> list[bytes | bytearray | memoryview]:
    return [struct.pack(">ii", 4, correlation_id)]


async def answer_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            asked = await reader.readexactly(8)
            await asyncio.sleep(ANSWERS_AFTER_S)
            writer.write(asked)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def succeeds(channel: Channel) -> bool:
    try:
        await channel.request_encoded(frame, lambda _: object(), timeout_ms=TIMEOUT_MS)
    except ChannelError:
        return False
    return True


def test_a_request_has_its_whole_time_after_the_backoff() -> None:
    """Steps: the peer is away until the backoff is longer than a request may take. It comes back. If the backoff
    counted in the time of a request, each request would be over before the dial, and its end would begin the next
    backoff. The peer would never be reached again (seed 7222: a follower that never fetched)."""

    async def body() -> None:
        port = PortAllocator().take()
        channel = Channel(
            name="test", address=lambda: Address(host="127.0.0.1", port=port), client_id="test", logger=Logger(1)
        )
        began = time.monotonic()
        while time.monotonic() - began < 5 * BACKOFF_MS_MAX / 1000:  # 50, 100, 200, 400 and 500 ms
            assert not await succeeds(channel)
        server = await asyncio.start_server(answer_late, "127.0.0.1", port)
        try:
            assert await succeeds(channel) or await succeeds(channel) or await succeeds(channel)
        finally:
            channel.close()
            server.close()

    async def bounded() -> None:
        async with asyncio.timeout(60):
            await body()

    asyncio.run(bounded())
