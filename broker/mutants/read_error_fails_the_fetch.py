"""A log that cannot be read fails the whole Fetch request, with all the partitions in it."""

from __future__ import annotations

from broker.mutants import Patch
from broker.mutants.settings import Settings
from broker.node.handlers import fetch_reads


def apply(patch: Patch) -> None:
    patch.set(fetch_reads, "STORAGE_ERRORS", ())


def is_reached(settings: Settings) -> bool:
    return settings.disk_faults > 0
