"""Who waits until this broker's metadata image has moved: answers that must not come before it shows a change."""

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
        """Wait for the next image. False if none came in time."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await waiter
        except TimeoutError:
            return False
        return True
