"""Readers with read_committed get everything below the high watermark, decided or not."""

from __future__ import annotations

from broker.log.partition_log import PartitionLog
from broker.mutants import Patch


def apply(patch: Patch) -> None:
    patch.set(PartitionLog, "last_stable_offset", lambda self, high_watermark: high_watermark)
