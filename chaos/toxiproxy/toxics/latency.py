"""latency: each chunk arrives `latency` ± `jitter` ms later, in order. When the toxic is removed, held bytes are sent
at once."""

from __future__ import annotations

import asyncio
import time
from collections import deque

from chaos.toxiproxy.toxic import MILLISECONDS_MAX, Attribute, Slot, ToxicSpec

CHUNKS_MAX = 1024  # as many as in Toxiproxy; beyond it, the sender is slowed down
BYTES_MAX = 16 << 20


class Latency:
    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._held: deque[tuple[float, float, bytes | None]] = deque()  # arrival in s, jitter share, data; None: end
        self._held_bytes = 0
        self._task: asyncio.Task[None] | None = None
        self._arrived = asyncio.Event()
        self._space = asyncio.Event()
        self._is_delivering = False

    async def push(self, data: bytes) -> None:
        while len(self._held) >= CHUNKS_MAX or self._held_bytes >= BYTES_MAX:
            self._space.clear()
            await self._space.wait()
        self._hold(data)

    async def finish(self) -> None:
        self._hold(None)

    def started(self) -> None:
        return None

    def changed(self) -> None:
        return None

    def is_idle(self) -> bool:
        return not self._held and not self._is_delivering

    def stop(self) -> None:
        if self._task:
            self._task.cancel()

    def _hold(self, data: bytes | None) -> None:
        self._held.append((time.monotonic(), self._slot.jitter(), data))
        self._held_bytes += len(data) if data else 0
        self._arrived.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._deliver())

    async def _deliver(self) -> None:
        while True:
            while not self._held:
                self._arrived.clear()
                await self._arrived.wait()
            arrival, share, data = self._held[0]
            await self._wait_due(arrival, share)
            self._is_delivering = True
            self._held.popleft()
            self._held_bytes -= len(data) if data else 0
            self._space.set()
            if data is None:
                await self._slot.next.finish()
            else:
                await self._slot.next.push(data)
            self._is_delivering = False

    async def _wait_due(self, arrival: float, share: float) -> None:
        while not self._slot.is_removed:
            delay_ms = self._slot.number("latency") + share * max(0, self._slot.number("jitter"))
            left_ms = delay_ms - (time.monotonic() - arrival) * 1000
            if left_ms <= 0:
                return
            await self._slot.sleep_ms(left_ms)


SPEC = ToxicSpec(
    type="latency",
    attributes=(
        Attribute(name="latency", default=0, maximum=MILLISECONDS_MAX),
        Attribute(name="jitter", default=0, maximum=MILLISECONDS_MAX),
    ),
    make=Latency,
)
