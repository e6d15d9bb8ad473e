"""After a loss of power only the last segment is checked, as if a process had been killed."""

from __future__ import annotations

from broker.log.directory import LogDirectory
from broker.mutants import Patch


def apply(patch: Patch) -> None:
    patch.set(LogDirectory, "_is_same_boot", lambda self: True)
