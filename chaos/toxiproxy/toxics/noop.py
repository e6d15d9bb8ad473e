"""noop: passes everything on. For trying the API."""

from __future__ import annotations

from chaos.toxiproxy.toxic import PassThrough, Slot, ToxicSpec


class Noop(PassThrough):
    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    async def push(self, data: bytes) -> None:
        await self._slot.next.push(data)

    async def finish(self) -> None:
        await self._slot.next.finish()


SPEC = ToxicSpec(type="noop", make=Noop)
