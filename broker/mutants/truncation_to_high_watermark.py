"""Followers truncate to their high watermark, as before KIP-101, and not by leader epoch."""

from __future__ import annotations

from typing import Any

from broker.mutants import Patch
from broker.node.handlers import api_01_fetch
from broker.node.partitions import Partitions


def apply(patch: Patch) -> None:
    def follow(self: Partitions, *values: Any) -> None:
        original(self, *values)
        hosted = self.get(values[0].topic, values[0].partition)
        if hosted is not None and not hosted.replica.is_leader:
            self.truncate(hosted, max(hosted.replica.high_watermark, hosted.log.log_start_offset))

    original = patch.set(Partitions, "_follow", follow)
    patch.set(api_01_fetch, "diverging_epoch", lambda **where: None)
