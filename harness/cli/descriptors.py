"""File descriptors: what a run needs at least is asked for before anything is started.

Shown by tests/harness/test_harness_anywhere.py.
"""

from __future__ import annotations

import resource
from typing import Final

from harness.errors import EnvironmentFault

# A broker keeps 256 for its files and gives the rest to connections. With 256 in all no cluster came up, and the run
# ended after a minute; with 512 a suite and its faults went through.
DESCRIPTORS_MIN: Final = 512


def require_descriptors(hard: int | None = None) -> None:
    """EnvironmentFault where processes cannot raise their limit (`hard`, else this process's) to what they need."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1] if hard is None else hard
    if limit != resource.RLIM_INFINITY and limit < DESCRIPTORS_MIN:
        raise EnvironmentFault(
            f"file descriptors: expected a hard limit of at least {DESCRIPTORS_MIN}, got {limit}. "
            f"Raise it (ulimit -Hn {DESCRIPTORS_MIN}); a larger suite needs more"
        )
