"""Proof that a link has become slow: the time that a load of known size takes over it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from chaos.faults.base import FaultContext, Proof
from chaos.faults.probes import door_of, probe_load, quickest
from chaos.link_probe import LoadProbe

TIMEOUT_MS = 5_000


def prove_by_load(
    context: FaultContext, stream: str, *, size_bytes: int, expected_us: Callable[[int], int], share: float
) -> Proof:
    """Send about `size_bytes` over each link. They should take `expected_us`. A `share` of that time is enough."""

    def is_late(load: LoadProbe) -> bool:
        return load.is_answered and load.elapsed_us >= share * expected_us(load.size_bytes)

    detail: dict[str, object] = {}
    is_effective = True
    for link in context.links:
        door = door_of(context.port, link)
        load = quickest(partial(probe_load, door, stream=stream, size_bytes=size_bytes, timeout_ms=TIMEOUT_MS), is_late)
        expected = expected_us(load.size_bytes)
        detail[link] = {"bytes": load.size_bytes, "took_us": load.elapsed_us, "expected_us": expected}
        is_effective &= is_late(load)
    return Proof(is_effective=is_effective, detail=detail)
