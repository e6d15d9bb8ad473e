"""What a tool prints of two brokers. After a change each broker hears of it a moment after the controller has
answered, so a command that only reads is given again for a while, and several times, before the two count as
different."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final, TypeVar

READING: Final = frozenset({"--describe", "--list", "--verify", "--generate", "describe"})
KNOWN_WITHIN_S: Final = 60.0
TIMES_MIN: Final = 3  # on a busy host one command may take longer than KNOWN_WITHIN_S
Side = TypeVar("Side")


def printed_by_both(
    command: Sequence[str], sides: tuple[Side, Side], printed: Callable[[Side], list[str]]
) -> tuple[list[str], list[str]]:
    """The lines of Apache Kafka's side and of ours."""
    deadline = time.monotonic() + KNOWN_WITHIN_S
    for times in count(1):
        theirs, ours = (printed(side) for side in sides)
        is_over = times >= TIMES_MIN and time.monotonic() > deadline
        if theirs == ours or not READING.intersection(command) or is_over:
            break
        time.sleep(0.1)
    return theirs, ours
