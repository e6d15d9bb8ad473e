"""How many examples of a property are tried, and how many seeds.

`make test-fast` tries a small part of them, `make test` a quarter, `make test-all` all. The Makefile sets TEST_AMOUNT
to fast and to all; CI and a plain `pytest` are as `make test`. What is left out is more of the same: another example,
seed or position of a claim that those which stay show too. Hypothesis draws others each time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypeVar

AMOUNT: Final = os.environ.get("TEST_AMOUNT") or "usual"
IS_FAST: Final = AMOUNT == "fast"
_PARTS: Final = {"fast": 8, "usual": 4, "all": 1}
_EXAMPLES_MIN: Final = {"fast": 10, "usual": 25, "all": 0}  # Hypothesis begins with the simple ones
_T = TypeVar("_T")
if AMOUNT not in _PARTS:
    raise ValueError(f"TEST_AMOUNT={AMOUNT}: expected {', '.join(_PARTS)}, or nothing")


def examples(full: int) -> int:
    """For `@settings(max_examples=...)`, and for loops over what is drawn."""
    return max(min(full, _EXAMPLES_MIN[AMOUNT]), full // _PARTS[AMOUNT])


def some(full: Sequence[_T], *, fast: int) -> Sequence[_T]:
    """All of them; for `make test-fast` `fast` of them, with the first and the last and equal steps between."""
    return _spread(full, fast) if IS_FAST else full


def seeds(count: int, *, fast: int) -> Sequence[int]:
    """0 to `count`; a quarter of them for `make test`, `fast` of them for `make test-fast`."""
    wanted = {"fast": fast, "usual": max(fast, count // 4), "all": count}[AMOUNT]
    return _spread(range(count), wanted)


def _spread(full: Sequence[_T], wanted: int) -> Sequence[_T]:
    assert wanted >= 2
    if len(full) <= wanted:
        return full
    return [full[index * (len(full) - 1) // (wanted - 1)] for index in range(wanted)]
