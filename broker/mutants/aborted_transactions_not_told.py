"""Fetch does not tell readers which transactions were aborted."""

from __future__ import annotations

from broker.log.partition_log import PartitionLog
from broker.mutants import Patch


def apply(patch: Patch) -> None:
    patch.set(PartitionLog, "aborted_transactions", lambda self, from_offset, upper_bound: [])
