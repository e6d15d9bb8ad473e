"""slow_close: the end of the stream arrives `delay` ms later."""

from __future__ import annotations

import time

from chaos.toxiproxy.toxic import MILLISECONDS_MAX, Attribute, PassThrough, Slot, ToxicSpec


class SlowClose(PassThrough):
    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    async def push(self, data: bytes) -> None:
        await self._slot.next.push(data)

    async def finish(self) -> None:
        arrival = time.monotonic()
        while not self._slot.is_removed:
            left_ms = self._slot.number("delay") - (time.monotonic() - arrival) * 1000
            if left_ms <= 0:
                break
            await self._slot.sleep_ms(left_ms)
        await self._slot.next.finish()


SPEC = ToxicSpec(
    type="slow_close",
    attributes=(Attribute(name="delay", default=0, maximum=MILLISECONDS_MAX),),
    make=SlowClose,
)
