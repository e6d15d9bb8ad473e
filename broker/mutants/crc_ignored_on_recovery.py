"""Recovery takes any batch whose header looks right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.log.segment import Segment
from broker.mutants import Patch
from broker.wire.errors import CorruptBatchError
from broker.wire.records import BATCH_OVERHEAD_BYTES, BatchHeader, check_header, parse_batch_header

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def _check_batch(self: Segment, position: int, file_bytes: int) -> BatchHeader:
    header = parse_batch_header(self._file.read_at(position, BATCH_OVERHEAD_BYTES))
    if position + header.size_bytes > file_bytes:
        raise CorruptBatchError(f"a batch of {header.size_bytes} bytes at byte {position} ends after its file")
    check_header(header, position, is_stored=True)
    if header.base_offset < self.next_offset:
        raise CorruptBatchError(f"base offset {header.base_offset} at byte {position} after {self.next_offset - 1}")
    return header


def apply(patch: Patch) -> None:
    patch.set(Segment, "_check_batch", _check_batch)


def is_reached(plan: SeedPlan) -> bool:
    return plan.can_lose_power_unsynced
