"""Lets answers wait until this broker's metadata image shows a change."""

from __future__ import annotations

import asyncio


class ImageMoves:
    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[None]] = []

    def moved(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, timeout_ms: int) -> bool:
        """Waits for the next image. False if there was none in time."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await waiter
        except TimeoutError:
            return False
        return True
