from __future__ import annotations

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
