"""How much work a call does, counted and not timed: lines of Python that run, and functions that are called.

Work in turn of doubled size may at most about double. So a test finds what is quadratic with small sizes, on any host.
Loops within a function of the standard library in C count as one call, for example `x in some_list`. Names that compare
in Python (`Name`) make them visible.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final, TypeVar

RATIO_MAX: Final = 2.6  # of the work for twice the size; linear is 2, sorting a little more, quadratic 4
_T = TypeVar("_T")


class Name(str):
    """A text whose comparison is a call of Python, so that searching a list for it is counted."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)  # type: ignore[arg-type]

    def __hash__(self) -> int:
        return str.__hash__(self)


class Work:
    """Counts within `with`. Only the lines of files in `broker` count, apart from those of the simulation, and every
    call of other Python code that they cause. `steps` is the sum so far."""

    def __init__(self) -> None:
        self.steps = 0
        self._is_ours: dict[CodeType, bool] = {}
        self._before: Any = None

    def __enter__(self) -> Work:
        self._before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _called(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        is_ours = self._is_ours.get(code)
        if is_ours is None:
            name = code.co_filename
            is_ours = self._is_ours[code] = "/broker/" in name and "/broker/sim/" not in name and "/tests/" not in name
        if "/broker/sim/" in code.co_filename:
            return None
        self.steps += 1
        return self._line if is_ours else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        self.steps += 1
        return self._line


def steps_of(call: Callable[[], object]) -> int:
    with Work() as work:
        call()
    return work.steps


def assert_linear(call_of: Callable[[int], Callable[[], object]], size: int) -> None:
    """`call_of(size)` prepares a call for this size. Only the call itself counts."""
    small, large = steps_of(call_of(size)), steps_of(call_of(2 * size))
    assert large <= RATIO_MAX * small, f"{small} steps for {size}, {large} for {2 * size}"
