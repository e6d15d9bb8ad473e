"""Work of one request in turns: a request that may take long lets others have theirs in between.

Between two turns no other request of its connection is taken, so their order stays and its frame stays valid.
Shown by tests/broker_node/test_node_limits.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from broker.node.net.requests import UnderWay, guarded
from broker.node.process.clock import monotonic_ns

TURN_NS = 20_000_000


def in_turns(request: UnderWay, work: Iterator[object], done: Callable[[], None]) -> None:
    """Run `work`, which yields where it may be left, and then `done`: now, or later if it takes more than one turn."""
    turn_ends_ns = monotonic_ns() + TURN_NS
    for _ in work:
        if monotonic_ns() > turn_ends_ns:
            request.take_alone()
            asyncio.get_running_loop().call_soon(guarded(request, in_turns), request, work, done)
            return
    done()
