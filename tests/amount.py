"""How many examples of a property are tried: `make test-fast` tries a part of them, everything else tries all.

The Makefile sets TEST_AMOUNT=fast for `make test-fast` alone. `make test`, CI and a plain `pytest` try all. What is
left out is more of the same: another example, seed or position of a claim that those which stay show too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypeVar

IS_FAST: Final = os.environ.get("TEST_AMOUNT") == "fast"
_EXAMPLES_PART: Final = 5
_EXAMPLES_MIN: Final = 15  # Hypothesis tries simple values first, so that fewer would show little else
_T = TypeVar("_T")


def examples(full: int) -> int:
    """For `@settings(max_examples=...)`."""
    return max(min(full, _EXAMPLES_MIN), full // _EXAMPLES_PART) if IS_FAST else full


def some(full: Sequence[_T], *, fast: int) -> Sequence[_T]:
    """All of them, or `fast` of them with the first and the last and equal steps between."""
    assert fast >= 2
    if not IS_FAST or len(full) <= fast:
        return full
    return [full[index * (len(full) - 1) // (fast - 1)] for index in range(fast)]
