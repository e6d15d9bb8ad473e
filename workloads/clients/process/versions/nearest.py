"""Which versions are near one that a registry does not have. Pure.

Shown by tests/workloads/test_workloads_versions.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

SHOWN_MAX: Final = 4
_RELEASE: Final = re.compile(r"v?(\d+(?:\.\d+)*)")


def nearest_versions(wanted: str, versions: Iterable[str]) -> list[str]:
    """Two below and two above, in order; more of one side where the other has none. Releases only, if there is one."""
    known = in_order(set(versions))
    known = [each for each in known if _RELEASE.fullmatch(each)] or known
    below = [each for each in known if _key(each) < _key(wanted)]
    above = [each for each in known if _key(each) >= _key(wanted)]
    take = max(SHOWN_MAX // 2, SHOWN_MAX - len(above))
    near = below[-take:]
    return near + above[: SHOWN_MAX - len(near)]


def in_order(versions: Iterable[str]) -> list[str]:
    """The oldest first."""
    return sorted(versions, key=_key)


def _key(version: str) -> tuple[tuple[int, ...], int, str]:
    """By the numbers it begins with. What has more behind them (2.0.0rc1) comes before the release."""
    found = _RELEASE.match(version)
    numbers = tuple(int(part) for part in found[1].split(".")) if found else ()
    rest = version[found.end() :] if found else version
    return numbers, 0 if rest else 1, rest
