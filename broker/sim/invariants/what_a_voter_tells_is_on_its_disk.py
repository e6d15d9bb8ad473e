from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class WhatAVoterTellsIsOnItsDisk(Invariant):
    """The epoch, the vote and the log that a message of a voter tells of are on its disk when it is sent."""

    NAME = "what a voter tells is on its disk"
    GROUP = Group.QUORUM
