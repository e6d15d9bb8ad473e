"""Invariants of the processes, and of the simulation itself."""

from __future__ import annotations

import traceback

from broker.sim.invariants.invariant import Group, Invariant


class EventLoopAnswersWithinASession(Invariant):
    """No callback of a broker takes or waits longer than broker.session.timeout.ms."""

    NAME = "an event loop answers within a session"
    GROUP = Group.PROCESSES

    def check(self, node_id: int, *, held_us: int, waited_us: int, session_ms: int) -> bool:
        """Returns whether the invariant holds.

        A broker that is busy for longer answers nobody and sends no heartbeat. So it is fenced, and its partitions get
        other leaders.
        """
        if held_us <= session_ms * 1000 and waited_us <= session_ms * 1000:
            return True
        self.violated(
            f"broker {node_id}: one callback took {held_us // 1000} ms, another waited "
            f"{waited_us // 1000} ms; broker.session.timeout.ms is {session_ms}"
        )
        return False


class NoHandlerRaises(Invariant):
    """No callback of a broker ends with an exception."""

    NAME = "no handler raises"
    GROUP = Group.PROCESSES


class BrokerDoesNotFail(Invariant):
    """No broker ends itself, except when its disk refuses something that it needs."""

    NAME = "a broker does not fail"
    GROUP = Group.PROCESSES


class BrokerStarts(Invariant):
    """Every broker starts, unless its disk refuses a call or its metadata log is damaged."""

    NAME = "a broker starts"
    GROUP = Group.PROCESSES


class CoresOwnInvariants(Invariant):
    """The assertions of the cores themselves hold after every event."""

    NAME = "the cores' own invariants"
    GROUP = Group.PROCESSES


class RunEnds(Invariant):
    """A run takes a bounded number of events."""

    NAME = "a run ends"
    GROUP = Group.PROCESSES


class SimulationDoesNotRaise(Invariant):
    """No exception of a broker, of a client or of the simulation itself ends the run."""

    NAME = "the simulation does not raise"
    GROUP = Group.PROCESSES

    def check(self, error: Exception) -> None:
        place = traceback.extract_tb(error.__traceback__)[-1]
        self.violated(f"{error!r} in {place.name} ({place.filename}:{place.lineno})")
