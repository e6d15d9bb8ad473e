"""Proves that a link has become slow, by the time that a load of known size takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from chaos.faults.base import FaultContext, Proof
from chaos.faults.probes import Before, door_of, probe_load, quickest
from chaos.link_probe import LoadProbe

TIMEOUT_MS = 5_000


def prove_by_load(
    context: FaultContext,
    stream: str,
    *,
    size_bytes: int,
    expected_us: Callable[[int], int],
    share: float,
    before: Before | None = None,
) -> Proof:
    """Send about `size_bytes` over each link. This should take `expected_us`, or with `before` longer than before by
    `expected_us`. A `share` of `expected_us` is enough for the proof."""

    def is_late(link: str, load: LoadProbe) -> bool:
        enough_us = share * expected_us(load.size_bytes) + (before[link] if before is not None else 0)
        return load.is_answered and load.elapsed_us >= enough_us

    detail: dict[str, object] = {}
    is_effective = True
    for link in context.links:
        door = door_of(context.port.links, link)
        probe = partial(probe_load, door, stream=stream, size_bytes=size_bytes, timeout_ms=TIMEOUT_MS)
        load = quickest(probe, partial(is_late, link))
        found = {"bytes": load.size_bytes, "took_us": load.elapsed_us, "expected_us": expected_us(load.size_bytes)}
        detail[link] = found if before is None else {**found, "before_us": before[link]}
        is_effective &= is_late(link, load)
    return Proof(is_effective=is_effective, detail=detail)
