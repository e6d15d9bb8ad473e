"""The directory in which a command writes down what it starts and breaks, made before it starts anything.

Shown by tests/harness/test_harness_anywhere.py.
"""

from __future__ import annotations

import os
from pathlib import Path

from chaos.lease import default_root
from chaos.lease_file import own_directory
from harness.errors import EnvironmentFault


def lease_root() -> Path:
    """EnvironmentFault if no state can be kept there, because then nothing could be undone."""
    root = default_root(os.environ)
    try:
        own_directory(root)  # as the lease does: a link or another user's is refused now
        problem = "" if os.access(root, os.W_OK | os.X_OK) else f"nothing can be written into {root}"
    except OSError as error:
        problem = str(error)
    if problem:
        raise EnvironmentFault(
            f"no state can be kept ({problem}): what is started and broken is written down, to undo it after a crash. "
            "Set XDG_STATE_HOME to a directory that can be written"
        )
    return root
