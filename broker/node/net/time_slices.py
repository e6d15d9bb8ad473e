"""Does the work of one request in several turns of the event loop, so that a request which takes long does not block
others.

Between two turns no other request of the same connection is taken. So the order of requests stays, and the request's
frame stays valid.
Shown by tests/broker_node/test_node_limits.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from broker.node.net.requests import UnderWay, guarded
from broker.node.process.clock import monotonic_ns

TURN_NS = 20_000_000


def in_turns(request: UnderWay, work: Iterator[object], done: Callable[[], None]) -> None:
    """Runs `work`, which yields where it may be interrupted, and then `done`. This happens at once, or later if it
    takes more than one turn."""
    turn_ends_ns = monotonic_ns() + TURN_NS
    for _ in work:
        if monotonic_ns() > turn_ends_ns:
            request.take_alone()
            asyncio.get_running_loop().call_soon(guarded(request, in_turns), request, work, done)
            return
    done()
