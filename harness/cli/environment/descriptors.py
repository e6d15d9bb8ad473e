"""File descriptors: a run checks before it starts anything whether it can have as many as it needs.

Shown by tests/harness/test_harness_anywhere.py.
"""

from __future__ import annotations

import resource
from typing import Final

from harness.errors import EnvironmentFault

# A broker reserves 256 for its files and uses the rest for connections. With a limit of 256 no cluster came up, and the
# run ended after a minute. With 512 a suite and its faults worked.
DESCRIPTORS_MIN: Final = 512


def require_descriptors(hard: int | None = None) -> None:
    """EnvironmentFault if processes cannot raise their limit (`hard`, else this process's) to what they need."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1] if hard is None else hard
    if limit != resource.RLIM_INFINITY and limit < DESCRIPTORS_MIN:
        raise EnvironmentFault(
            f"file descriptors: expected a hard limit of at least {DESCRIPTORS_MIN}, got {limit}. "
            f"Raise it (ulimit -Hn {DESCRIPTORS_MIN}); a larger suite needs more"
        )
