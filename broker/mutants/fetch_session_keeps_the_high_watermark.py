"""An answer of a fetch session leaves out a partition if only its high watermark is new (against KIP-227)."""

from __future__ import annotations

from broker.mutants import Patch
from broker.node.replicas.fetch_sessions import CachedPartition


def _must_tell(
    self: CachedPartition, *, high_watermark: int, log_start_offset: int, has_records: bool, has_news: bool
) -> bool:
    return has_records or has_news


def apply(patch: Patch) -> None:
    patch.set(CachedPartition, "must_tell", _must_tell)
