"""timeout: discards everything and closes the connection after `timeout` ms. With 0 the removal of the toxic closes it.

The time counts from the activation. (In Toxiproxy each chunk starts it again, so a busy connection never closes.)
"""

from __future__ import annotations

import asyncio

from chaos.toxiproxy.toxic import MILLISECONDS_MAX, Attribute, Slot, ToxicSpec


class Timeout:
    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._timer: asyncio.TimerHandle | None = None

    async def push(self, data: bytes) -> None:
        return None

    async def finish(self) -> None:
        await self._slot.next.finish()

    def started(self) -> None:
        self.stop()
        timeout_ms = self._slot.number("timeout")
        if timeout_ms > 0:
            delay_s = min(timeout_ms, MILLISECONDS_MAX) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._slot.connection.close)

    def changed(self) -> None:
        if self._slot.is_removed:
            # Discarded bytes have left a gap, so the stream must not continue.
            self._slot.connection.close()
        else:
            self.started()

    def is_idle(self) -> bool:
        return True

    def stop(self) -> None:
        if self._timer:
            self._timer.cancel()


SPEC = ToxicSpec(
    type="timeout",
    attributes=(Attribute(name="timeout", default=0, maximum=MILLISECONDS_MAX),),
    make=Timeout,
)
