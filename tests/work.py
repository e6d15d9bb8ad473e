"""How much work a call does, counted and not timed: lines of Python that run, and functions that are called.

Twice the size may at most make about twice the work. So a test finds what is quadratic with small sizes, on any host.
Each function is compared on its own: a search in a list is quadratic long before it is most of the work. Loops in C are
one line, for example `x in some_list`. Texts that compare in Python (`Name`) make those visible.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

RATIO_MAX: Final = 2.6  # of the work for twice the size; linear is 2, sorting a little more, quadratic 4
STEPS_MIN: Final = 8  # for each element: functions that do less than this are not compared
ALL_STEPS_MIN: Final = 32  # the same for all of them together


class Name(str):
    """A text whose comparison is a call of Python, so that searching a list for it is counted."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)  # type: ignore[arg-type]

    def __hash__(self) -> int:
        return str.__hash__(self)


class Work:
    """Counts within `with`: the lines of files in `broker`, and every call of other Python code. The simulation itself
    does not count."""

    def __init__(self) -> None:
        self.by_code: Counter[CodeType] = Counter()
        self._has_lines: dict[CodeType, bool | None] = {}  # None: it does not count
        self._before: Any = None

    @property
    def steps(self) -> int:
        return self.by_code.total()

    def __enter__(self) -> Work:
        self._before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _called(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        if code not in self._has_lines:
            name = code.co_filename
            is_ours = "/broker/" in name and "/tests/" not in name
            self._has_lines[code] = None if "/broker/sim/" in name else is_ours
        has_lines = self._has_lines[code]
        if has_lines is None:
            return None
        self.by_code[code] += 1
        return self._line if has_lines else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        self.by_code[frame.f_code] += 1
        return self._line


def excess(small: Work, large: Work, size: int) -> list[str]:
    """What grew too much when `size` doubled: the whole, or a function."""
    found = []
    if large.steps >= ALL_STEPS_MIN * 2 * size and large.steps > RATIO_MAX * small.steps:
        found.append(f"all: {small.steps} steps for {size}, {large.steps} for {2 * size}")
    for code, steps in large.by_code.most_common():
        if steps >= STEPS_MIN * 2 * size and steps > RATIO_MAX * small.by_code[code]:
            where = f"{Path(code.co_filename).name}:{code.co_firstlineno} {code.co_qualname}"
            found.append(f"{where}: {small.by_code[code]} steps for {size}, {steps} for {2 * size}")
    return found


def assert_linear(call_of: Callable[[int], Callable[[], object]], size: int) -> None:
    """`call_of(size)` prepares a call for this size. Only the call itself counts."""
    small, large = Work(), Work()
    for work, count in ((small, size), (large, 2 * size)):
        call = call_of(count)
        with work:
            call()
    found = excess(small, large, size)
    assert not found, "\n".join(found)
