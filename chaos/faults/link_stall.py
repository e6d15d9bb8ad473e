"""link_stall: bytes of one stream (or both) stop and continue later without loss. Connections stay open.

It is like a cable that is unplugged and plugged in again. `stream: downstream` stops only one direction: requests
arrive, answers do not.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.faults.base import FaultContext, FaultSpec, HostPermit, Parameter, Proof
from chaos.faults.toxics import SILENCE_MS, LinkToxics, prove_silent, streams_of


class LinkStall:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._streams = streams_of(parameters["stream"])
        self._toxics = LinkToxics(
            door=context.port.links.plain, lease=context.lease, name=context.toxic_name, type="bandwidth"
        )

    def inject(self) -> None:
        self._toxics.add(self._context.links, self._streams, {"rate": 0})

    def heal(self) -> None:
        self._toxics.remove()

    def prove(self) -> Proof:
        return prove_silent(self._context, self._context.links, {"silent_ms": SILENCE_MS})


SPEC = FaultSpec(
    name="link_stall",
    label="link stalled",
    colour="#d35400",
    target_kind="link",
    default_target="followers->leader",
    make=LinkStall,
    parameters={"stream": "downstream"},
    host_permit=HostPermit(word="stall", toxic="bandwidth", attributes={"rate": 0}),
)
