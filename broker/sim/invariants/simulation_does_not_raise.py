from __future__ import annotations

import traceback

from broker.sim.invariants.invariant import Group, Invariant


class SimulationDoesNotRaise(Invariant):
    """No exception of a broker, of a client or of the simulation itself ends the run."""

    NAME = "the simulation does not raise"
    GROUP = Group.PROCESSES

    def check(self, error: Exception) -> None:
        place = traceback.extract_tb(error.__traceback__)[-1]
        self.violated(f"{error!r} in {place.name} ({place.filename}:{place.lineno})")
