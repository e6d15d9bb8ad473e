"""What a toxic holds back is not released before its time, although uvloop counts in whole milliseconds."""

import asyncio
import time

import pytest
import uvloop

from chaos.toxiproxy.link import Connection

DELAY_MS = 20
TIMERS = 40  # each begins at another part of a millisecond


async def turn() -> None:
    """Keeps the loop turning, as other connections do: it looks at its clock all the time."""
    while True:
        await asyncio.sleep(0)


async def shortest_s() -> float:
    turning, held_s = asyncio.create_task(turn()), []
    for _ in range(TIMERS):
        released: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        began_s = time.monotonic()
        Connection.call_later_ms(None, DELAY_MS, lambda released=released: released.set_result(time.monotonic()))
        held_s.append(await released - began_s)
    turning.cancel()
    return min(held_s)


@pytest.mark.thorough
def test_nothing_held_back_is_released_early() -> None:
    assert uvloop.run(shortest_s()) >= DELAY_MS / 1000
