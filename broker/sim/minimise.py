"""Finds a small part of many inputs that still shows a fault: delta debugging (Zeller, ddmin), with a limit on the
runs.

First it takes the end of the list and doubles its length until it shows the fault, because the input that ends a
process usually comes last. Then it leaves out parts of that, halves first, as long as the rest shows the fault. It does
not know what the inputs are. Shown by tests/broker_sim/test_sim_minimise.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

RUNS_MAX = 100  # each run may start processes

T = TypeVar("T")


def fewest(inputs: Sequence[T], shows: Callable[[list[T]], bool], *, runs_max: int = RUNS_MAX) -> list[T]:
    """The inputs that still show the fault, in their order. If even all of them do not show it again: all inputs."""
    left = runs_max

    def still(some: list[T]) -> bool:
        nonlocal left
        left -= 1
        return shows(some)

    size = 1
    while not still(list(inputs[-size:])):
        if size >= len(inputs):
            return list(inputs)
        size *= 2
    found, parts = list(inputs[-size:]), 2
    while len(found) > 1 and left > 0:
        step = -(-len(found) // parts)
        for start in range(0, len(found), step):
            rest = found[:start] + found[start + step :]
            if left > 0 and rest and still(rest):
                found, parts = rest, max(2, parts - 1)
                break
        else:
            if step == 1:
                break
            parts = min(2 * parts, len(found))
    return found
