from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class RequestOfTooManyElementsIsRefused(Invariant):
    """A request with too many elements is refused, and no other client waits for it."""

    NAME = "a request of too many elements is refused"
    GROUP = Group.AFTERMATH
