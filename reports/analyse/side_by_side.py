"""Runs two halves of a work that queries Spark at the same time. Spark plans a query on one core, and while it plans
one for a small run, the other core has nothing to do.

Shown by tests/reports/test_reports_side_by_side.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

A = TypeVar("A")
B = TypeVar("B")


class Pair(Protocol):
    """How two halves are run: `both` or `in_turn`."""

    def __call__(self, here: Callable[[], A], beside: Callable[[], B]) -> tuple[A, B]: ...


def in_turn(here: Callable[[], A], beside: Callable[[], B]) -> tuple[A, B]:
    """The same results, one half after the other: for halves that would share memory."""
    return here(), beside()


def both(here: Callable[[], A], beside: Callable[[], B]) -> tuple[A, B]:
    """The results of both. The first runs in this thread.

    An error of one is raised only when both have ended. Both name their views in one session, so a failed attempt must
    have ended before the next one begins. An interrupt does not wait.
    """
    found: list[B] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            found.append(beside())
        except BaseException as error:  # raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=work, name="beside", daemon=True)
    thread.start()
    try:
        mine = here()
    except Exception:
        thread.join()
        raise
    thread.join()
    if errors:
        raise errors[0]
    return mine, found[0]
