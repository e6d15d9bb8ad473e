from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class ClientDoesNotFail(Invariant):
    """No thread of a reference client ends with an exception."""

    NAME = "a client does not fail"
    GROUP = Group.CLIENTS

    def check(self, name: str, failure: BaseException | None) -> None:
        if failure is not None:
            self.violated(f"{name}: {failure!r}")
