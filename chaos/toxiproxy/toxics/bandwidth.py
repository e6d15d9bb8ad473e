"""bandwidth: at most `rate` KB/s (1 KB is 1000 bytes). Rate 0 stops all bytes and loses none. They continue after a
change or the removal of the toxic.

This is the only way to cut one direction without loss, because `timeout` discards what arrives while it is active.
"""

from __future__ import annotations

import time

from chaos.toxiproxy.toxic import Attribute, PassThrough, Slot, ToxicSpec

PIECE_MS = 100  # a long chunk is sent in pieces that take this long, so that the receiver sees a stream
RATE_MAX = 100_000_000


class Bandwidth(PassThrough):
    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._is_holding = False
        self._free_at_ms = 0.0

    async def push(self, data: bytes) -> None:
        self._is_holding = True
        rest = memoryview(data)
        while rest and not self._slot.is_removed:
            rate = self._slot.number("rate")
            if rate <= 0:
                await self._slot.wait_changed()
                continue
            piece = rest[: max(1, rate * PIECE_MS)]  # rate KB/s is rate bytes per ms
            now_ms = time.monotonic() * 1000
            due_ms = max(now_ms, self._free_at_ms) + len(piece) / rate
            if await self._slot.sleep_ms(due_ms - now_ms):
                continue
            self._free_at_ms = due_ms
            await self._slot.next.push(bytes(piece))
            rest = rest[len(piece) :]
        if rest:
            await self._slot.next.push(bytes(rest))
        self._is_holding = False

    async def finish(self) -> None:
        while self._slot.number("rate") <= 0 and not self._slot.is_removed:
            await self._slot.wait_changed()
        await self._slot.next.finish()

    def is_idle(self) -> bool:
        return not self._is_holding


SPEC = ToxicSpec(
    type="bandwidth",
    attributes=(Attribute(name="rate", default=0, maximum=RATE_MAX),),
    make=Bandwidth,
)
