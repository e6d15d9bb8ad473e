"""limit_data: closes the connection after `bytes` bytes. They are counted per connection, since the toxic was added."""

from __future__ import annotations

from chaos.toxiproxy.toxic import Attribute, PassThrough, Slot, ToxicSpec


class LimitData(PassThrough):
    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._passed_bytes = 0

    async def push(self, data: bytes) -> None:
        left = self._slot.number("bytes") - self._passed_bytes
        allowed = data[: max(0, left)]
        self._passed_bytes += len(allowed)
        if allowed:
            await self._slot.next.push(allowed)
        if self._passed_bytes >= self._slot.number("bytes"):
            self._slot.connection.close()

    async def finish(self) -> None:
        await self._slot.next.finish()


SPEC = ToxicSpec(type="limit_data", attributes=(Attribute(name="bytes", default=0),), make=LimitData)
