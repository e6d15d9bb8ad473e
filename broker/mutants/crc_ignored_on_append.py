"""A leader appends what it is sent without looking at the CRC."""

from __future__ import annotations

from broker.mutants import Patch
from broker.node.handlers import partition_produce
from broker.wire.batch import BatchHeader, iter_batches


def _validate_batches(buffer: memoryview, *, is_stored: bool = False) -> list[BatchHeader]:
    return [batch.header for batch in iter_batches(buffer)]


def apply(patch: Patch) -> None:
    patch.set(partition_produce, "validate_batches", _validate_batches)
