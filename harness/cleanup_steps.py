"""Steps that undo something: each is done, whatever became of the one before.

Shown by tests/harness/test_harness_operator_log.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable


def undo_all(steps: Iterable[Callable[[], object]]) -> list[Exception]:
    """Returns what failed, in the order of the steps. KeyboardInterrupt and its like end it, as they end anything."""
    problems: list[Exception] = []
    for step in steps:
        try:
            step()
        except Exception as error:  # the steps after it must be done too; whoever asked tells of it
            problems.append(error)
    return problems
