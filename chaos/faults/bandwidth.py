"""bandwidth: a link carries at most `rate_kb_per_s` (1 KB is 1000 bytes). Proved by the time that a load of known size
takes."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.faults.base import FaultContext, FaultSpec, HostPermit, Parameter, Proof
from chaos.faults.load_proof import prove_by_load
from chaos.faults.toxics import LinkToxics, streams_of

PROBE_MS = 250  # how long the load of the proof should take at this rate
SHARE_EXPECTED = 0.7  # the first piece goes at once


class Bandwidth:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._streams = streams_of(parameters["stream"])
        self._rate = int(parameters["rate_kb_per_s"])
        self._toxics = LinkToxics(
            door=context.port.links.plain, lease=context.lease, name=context.toxic_name, type="bandwidth"
        )

    def inject(self) -> None:
        if self._rate < 1:
            raise ValueError(f"rate_kb_per_s is {self._rate}, expected at least 1; a rate of 0 is the fault link_stall")
        self._toxics.add(self._context.links, self._streams, {"rate": self._rate})

    def heal(self) -> None:
        self._toxics.remove()

    def prove(self) -> Proof:
        return prove_by_load(
            self._context,
            self._streams[0],
            size_bytes=self._rate * PROBE_MS,
            expected_us=lambda size_bytes: size_bytes * 1000 // self._rate,
            share=SHARE_EXPECTED,
        )


SPEC = FaultSpec(
    name="bandwidth",
    label="bandwidth capped",
    colour="#7d6608",
    target_kind="link",
    default_target="follower:0->leader",
    make=Bandwidth,
    parameters={"rate_kb_per_s": 128, "stream": "downstream"},
    host_permit=HostPermit(word="bandwidth", toxic="bandwidth"),
)
