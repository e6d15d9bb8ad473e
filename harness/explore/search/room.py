"""How many trials take place side by side: more while the host has a processor to spare, fewer while it has none.

A trial mostly waits: for time-outs, for rebalances, for its own pauses. On an idle host with two cores six of them at
once leave two thirds of the processors unused (docs/internals/recall.md). A fixed number that uses them all would
starve the clients of a busy host, and a starved client is late everywhere. So the number follows what is measured: it
grows by a step while little is used, and falls while nothing is left. Trials that are under way are never ended by
that. Has no clock and reads nothing of the host. Shown by tests/harness/test_harness_explore_room.py.
"""

from __future__ import annotations

from typing import Final

LOOK_EVERY_S: Final = 2.0  # A shorter time is a moment: the clients of one trial start, and the next one waits.
STEP: Final = 2
SPARE_BELOW: Final = 0.75  # of all processors. Between these two the number stays, so that it does not swing.
FULL_FROM: Final = 0.93


class Room:
    """`least` and `most` trials at once. If they are equal the number is fixed."""

    def __init__(self, least: int, most: int) -> None:
        assert 0 < least <= most
        self._least, self._most = least, most
        self._looked_s = 0.0
        self.trials = least

    def is_due(self, now_s: float) -> bool:
        """Whether it wants to know how busy the host was since the last look."""
        return self._least < self._most and now_s - self._looked_s >= LOOK_EVERY_S

    def look(self, busy: float, running: int, now_s: float) -> None:
        """`busy`: the share of all processors that was used since the last look, by whomever. `running`: trials that
        are under way. It grows only if all of its room is taken: else the search itself has nothing more to try."""
        self._looked_s = now_s
        if busy < SPARE_BELOW and running >= self.trials:
            self.trials = min(self._most, self.trials + STEP)
        elif busy > FULL_FROM:
            self.trials = max(self._least, self.trials - 1)
