from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class DeleteRecordsIsAnswered(Invariant):
    """A DeleteRecords request gets an answer."""

    NAME = "DeleteRecords is answered"
    GROUP = Group.AFTERMATH
