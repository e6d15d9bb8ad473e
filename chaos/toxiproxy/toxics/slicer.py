"""slicer: cuts data into pieces of `average_size` ± `size_variation` bytes with `delay` microseconds between them."""

from __future__ import annotations

import time
from collections.abc import Mapping

from chaos.toxiproxy.toxic import Attribute, AttributeValue, PassThrough, Slot, ToxicSpec

TIMER_STEP_MS = 1.0  # Event loops wake on whole milliseconds, so shorter delays are added up and never lost.


class Slicer(PassThrough):
    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._is_holding = False

    async def push(self, data: bytes) -> None:
        self._is_holding = True
        due_ms = time.monotonic() * 1000
        position = 0
        while position < len(data):
            if self._slot.is_removed:
                await self._slot.next.push(data[position:])
                break
            average, variation = self._slot.number("average_size"), self._slot.number("size_variation")
            size = max(1, round(average + self._slot.jitter() * variation))
            await self._slot.next.push(data[position : position + size])
            position += size
            due_ms += self._slot.number("delay") / 1000
            left_ms = due_ms - time.monotonic() * 1000
            if left_ms >= TIMER_STEP_MS:
                await self._slot.sleep_ms(left_ms)
        self._is_holding = False

    async def finish(self) -> None:
        await self._slot.next.finish()

    def is_idle(self) -> bool:
        return not self._is_holding


def _check(attributes: Mapping[str, AttributeValue]) -> str | None:
    """Toxiproxy crashes with such values when data arrives. A strict server refuses them. A server that is not strict
    sends single bytes."""
    average, variation = attributes["average_size"], attributes["size_variation"]
    assert isinstance(average, int)
    assert isinstance(variation, int)
    if average < 1:
        return f"slicer needs average_size of at least 1 byte, got {average}"
    if variation > average:
        return f"slicer needs size_variation of at most average_size ({average}), got {variation}"
    return None


SPEC = ToxicSpec(
    type="slicer",
    attributes=(
        Attribute(name="average_size", default=0, maximum=1 << 30),
        Attribute(name="size_variation", default=0, maximum=1 << 30),
        Attribute(name="delay", default=0, maximum=60_000_000),
    ),
    make=Slicer,
    check=_check,
)
