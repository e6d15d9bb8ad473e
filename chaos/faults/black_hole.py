"""black_hole: bytes that are sent over a link are discarded, but connections stay open. Healing closes them.

There is no FIN and no RST, so a peer that waits for an answer notices the fault only by its own timeout. The bytes sent
meanwhile are lost, so the streams cannot continue. `link_stall` is the fault without loss.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.faults.base import FaultContext, FaultSpec, HostPermit, Parameter, Proof
from chaos.faults.toxics import SILENCE_MS, LinkToxics, prove_silent, streams_of


class BlackHole:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._streams = streams_of(parameters["stream"])
        self._toxics = LinkToxics(
            door=context.port.links.plain, lease=context.lease, name=context.toxic_name, type="timeout"
        )

    def inject(self) -> None:
        self._toxics.add(self._context.links, self._streams, {"timeout": 0})

    def heal(self) -> None:
        self._toxics.remove()

    def prove(self) -> Proof:
        return prove_silent(self._context, self._context.links, {"silent_ms": SILENCE_MS})


SPEC = FaultSpec(
    name="black_hole",
    label="black hole",
    colour="#1b2631",
    target_kind="link",
    default_target="client->leader",
    make=BlackHole,
    parameters={"stream": "both"},
    host_permit=HostPermit(word="black_hole", toxic="timeout"),
)
