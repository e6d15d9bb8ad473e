"""latency: each chunk on a link arrives later. Proved by the round trip over the link, which takes longer by the delay
than before."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from chaos.faults.base import FaultContext, FaultSpec, HostPermit, Parameter, Proof
from chaos.faults.probes import Before, door_of, probe_link, quickest
from chaos.faults.toxics import LinkToxics, streams_of
from chaos.link_probe import LinkProbe

SHARE_EXPECTED = 0.8  # this share of the delay is enough, because timers round
OBSERVE_MS = 1_000


class Latency:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._streams = streams_of(parameters["stream"])
        self._latency_ms, self._jitter_ms = int(parameters["latency_ms"]), int(parameters["jitter_ms"])
        self._toxics = LinkToxics(
            door=context.port.links.plain, lease=context.lease, name=context.toxic_name, type="latency"
        )
        self._before = Before()

    def observe(self) -> None:
        self._before.take(self._context.links, partial(self._probe, timeout_ms=OBSERVE_MS))

    def inject(self) -> None:
        self._toxics.add(self._context.links, self._streams, {"latency": self._latency_ms, "jitter": self._jitter_ms})

    def heal(self) -> None:
        self._toxics.remove()

    def prove(self) -> Proof:
        expected_us = max(0, self._latency_ms - self._jitter_ms) * len(self._streams) * 1000
        timeout_ms = (self._latency_ms + self._jitter_ms) * len(self._streams) + 1000

        def is_late(link: str, probe: LinkProbe) -> bool:
            enough_us = self._before[link] + SHARE_EXPECTED * expected_us
            return probe.outcome == "answered" and probe.elapsed_us >= enough_us

        round_trips: dict[str, object] = {}
        is_effective = True
        for link in self._context.links:
            probe = quickest(partial(self._probe, link, timeout_ms=timeout_ms), partial(is_late, link))
            round_trips[link] = probe.elapsed_us
            is_effective &= is_late(link, probe)
        before = {link: self._before[link] for link in self._context.links}
        detail: dict[str, object] = {
            "round_trip_us": round_trips, "before_us": before, "expected_us_min": expected_us
        }  # fmt: skip
        return Proof(is_effective=is_effective, detail=detail)

    def _probe(self, link: str, *, timeout_ms: int) -> LinkProbe:
        return probe_link(door_of(self._context.port.links, link), timeout_ms=timeout_ms)


SPEC = FaultSpec(
    name="latency",
    label="latency",
    colour="#8e44ad",
    target_kind="link",
    default_target="followers->leader",
    make=Latency,
    parameters={"latency_ms": 100, "jitter_ms": 0, "stream": "downstream"},
    host_permit=HostPermit(word="latency", toxic="latency"),
)
