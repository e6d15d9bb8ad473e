"""A cell without load, for a port over a cluster that a test broke by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


class NoLoad:
    """What a port asks of the load, where there is none."""

    acked = 0
    members = None
    own_topics = None

    def coordinator(self, group: str = "") -> int | None:
        return None

    def transaction_coordinator(self, transactional_id: str = "") -> int | None:
        return None

    def drop_unsynced(self, broker_id: int, account: Path, writeback_ms: int, torn_bytes: int) -> Mapping[str, int]:
        raise AssertionError("no power is lost here")
