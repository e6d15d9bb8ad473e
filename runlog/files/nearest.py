"""The known name that is nearest to a wrong one. Pure. Shown by tests/runlog/test_runlog_nearest.py."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

# Of difflib's ratio. One wrong or swapped letter costs a short name more of it than a long one. At 0.6, difflib's own
# default, words are called near that share a few letters.
NEAR_MIN: Final = 0.72
NEAR_MIN_OF_LONG: Final = 0.8  # `dmeo` is `demo` (0.75); `partitions` is not `repetitions` (0.76)
_LONG_MIN: Final = 9  # characters
_BEGINNING_MIN: Final = 3  # characters of a beginning that may stand for the whole name


def nearest_name(word: str, names: Iterable[str]) -> str | None:
    """The nearest of `names`, or else the shortest one that begins with `word`. None if nothing is near: a far-off
    guess costs its reader more time than none."""
    known = list(names)
    folded: dict[str, str] = {}  # what is compared -> the first name that is written so
    for name in known:
        folded.setdefault(name.lower(), name)
    cutoff = NEAR_MIN_OF_LONG if len(word) >= _LONG_MIN else NEAR_MIN
    close = difflib.get_close_matches(word.lower(), folded, n=1, cutoff=cutoff)
    if close:
        return folded[close[0]]
    longer = [name for name in known if len(word) >= _BEGINNING_MIN and name.lower().startswith(word.lower())]
    return min(longer, key=len, default=None)
