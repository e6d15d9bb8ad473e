"""Followers truncate to their high watermark, as before KIP-101, and not by leader epoch."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from broker.mutants import Patch
from broker.node.handlers import fetch_reads
from broker.node.replicas.cores import Cores
from broker.node.replicas.following import Following
from broker.node.replicas.roles import Roles


def apply(patch: Patch) -> None:
    followings: WeakKeyDictionary[Cores, Following] = WeakKeyDictionary()

    def init(self: Following, **parts: Any) -> None:
        make(self, **parts)
        followings[parts["cores"]] = self

    def follow(self: Roles, *values: Any) -> None:
        original(self, *values)
        hosted = self._partitions.get(values[0].topic, values[0].partition)
        if hosted is not None and not hosted.replica.is_leader:
            offset = max(hosted.replica.high_watermark, hosted.log.log_start_offset)
            followings[self._cores].truncate(hosted, offset)

    make = patch.set(Following, "__init__", init)
    original = patch.set(Roles, "_follow", follow)
    patch.set(fetch_reads, "diverging_epoch", lambda **where: None)
