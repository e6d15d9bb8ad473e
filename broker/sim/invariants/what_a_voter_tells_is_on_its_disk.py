from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class WhatAVoterTellsIsOnItsDisk(Invariant):
    """When a voter sends a message, the epoch, the vote and the log that the message mentions are on its disk."""

    NAME = "what a voter tells is on its disk"
    GROUP = Group.QUORUM
