"""An answer to a ShareFetch has only the first of the record batches that it acquires."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.mutants import Patch
from broker.node.features.share_groups.handlers import api_78_share_fetch
from broker.node.features.share_groups.handlers.reads import ShareRead
from broker.wire.records import iter_batches

if TYPE_CHECKING:
    from broker.mutants.seed_plan import SeedPlan


def apply(patch: Patch) -> None:
    def acquire(found: ShareRead, member: str, *, records_max: int, batch_size: int, is_strict: bool) -> int:
        count: int = original(found, member, records_max=records_max, batch_size=batch_size, is_strict=is_strict)
        first = next(iter_batches(found.records), None)
        found.records = found.records[: len(first.buffer)] if first is not None else b""
        return count

    original = patch.set(api_78_share_fetch, "acquire", acquire)


def is_reached(plan: SeedPlan) -> bool:
    return plan.share_members > 0
