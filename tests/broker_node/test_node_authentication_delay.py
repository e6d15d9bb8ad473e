"""Who failed waits for the whole delay, although uvloop counts its timers in whole milliseconds of a clock cut down."""

import asyncio
import time
from types import SimpleNamespace

import pytest
import uvloop

from broker.node.net.authentication import Authentication, Authenticator
from broker.node.net.principal import Principal
from broker.node.settings.security import SaslSettings

DELAY_MS = 20
FAILURES = 40  # each begins at another part of a millisecond


class Peer:
    """A connection that only keeps when it was finished."""

    is_closed = False
    peer_host = "127.0.0.1"
    principal = Principal("User", "ANONYMOUS")

    def __init__(self) -> None:
        self.finished_s: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def limit_frames(self, size_bytes: int | None) -> None: ...
    def take_frames(self, take: object) -> None: ...
    def throttle(self, wait_ms: int) -> None: ...

    def finish(self) -> None:
        self.finished_s.set_result(time.monotonic())


async def failure_s() -> float:
    settings = SaslSettings(
        mechanisms=(), entries={}, max_reauth_ms={}, receive_bytes_max=1024, failed_delay_ms=DELAY_MS, tokens=None
    )
    authenticator = Authenticator(
        settings=settings, find=None, keys=None, warnings=SimpleNamespace(tell=lambda **_: None)
    )
    peer = Peer()
    authentication = Authentication(peer, authenticator, lambda request: None)
    began_s = time.monotonic()
    authentication._fail(None, None, "a wrong password")
    ended_s = await peer.finished_s
    authentication.closed()
    return ended_s - began_s


async def turn() -> None:
    """Keeps the loop turning, as other connections do: it looks at its clock all the time."""
    while True:
        await asyncio.sleep(0)


async def shortest_s() -> float:
    turning = asyncio.create_task(turn())
    try:
        return min([await failure_s() for _ in range(FAILURES)])
    finally:
        turning.cancel()


@pytest.mark.thorough
def test_the_delay_of_a_failed_authentication_is_never_shorter_than_set() -> None:
    assert uvloop.run(shortest_s()) >= DELAY_MS / 1000
