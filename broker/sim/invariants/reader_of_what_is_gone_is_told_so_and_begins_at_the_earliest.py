from __future__ import annotations

from broker.sim.invariants.invariant import Group, Invariant


class ReaderOfWhatIsGoneIsToldSoAndBeginsAtTheEarliest(Invariant):
    """A reader of a deleted offset gets OFFSET_OUT_OF_RANGE and can read everything from the earliest offset on."""

    NAME = "a reader of what is gone is told so, and begins at the earliest"
    GROUP = Group.AFTERMATH
