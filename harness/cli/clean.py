"""`harness clean`: undo what processes that are gone have left, by their leases."""

from __future__ import annotations

import os

from chaos.lease import default_root, reap


def clean_up() -> None:
    """One line for each thing undone; nothing to undo says so."""
    lines = reap(default_root(os.environ))
    for line in lines:
        print(line)
    if not lines:
        print("nothing was left behind")
