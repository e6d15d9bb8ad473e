"""reset_peer: at the first chunk waits `timeout` ms, then closes both sides with RST.

Unlike Toxiproxy it also sends RST on connections that were open before the toxic was added.
"""

from __future__ import annotations

from chaos.toxiproxy.toxic import MILLISECONDS_MAX, Attribute, PassThrough, Slot, ToxicSpec


class ResetPeer(PassThrough):
    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    async def push(self, data: bytes) -> None:
        while await self._slot.sleep_ms(self._slot.number("timeout")):
            if self._slot.is_removed:
                await self._slot.next.push(data)
                return
        self._slot.connection.reset()

    async def finish(self) -> None:
        await self._slot.next.finish()


SPEC = ToxicSpec(
    type="reset_peer",
    attributes=(Attribute(name="timeout", default=0, maximum=MILLISECONDS_MAX),),
    make=ResetPeer,
)
