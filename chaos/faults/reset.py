"""reset: connections of a link end with RST at the next bytes of `stream`. New connections do too, until healed.

On the original Toxiproxy server connections that were open before get a FIN instead (see `chaos/toxiproxy`).
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.faults.base import FaultContext, FaultSpec, HostPermit, Parameter, Proof
from chaos.faults.probes import door_of, probe_link
from chaos.faults.toxics import LinkToxics, streams_of

PROBE_TIMEOUT_MS = 1000


class Reset:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._streams = streams_of(parameters["stream"])
        self._delay_ms = int(parameters["delay_ms"])
        self._toxics = LinkToxics(
            door=context.port.links.plain, lease=context.lease, name=context.toxic_name, type="reset_peer"
        )

    def inject(self) -> None:
        self._toxics.add(self._context.links, self._streams, {"timeout": self._delay_ms})

    def heal(self) -> None:
        self._toxics.remove()

    def prove(self) -> Proof:
        outcomes: dict[str, object] = {}
        for link in self._context.links:
            timeout_ms = PROBE_TIMEOUT_MS + self._delay_ms
            outcomes[link] = probe_link(door_of(self._context.port.links, link), timeout_ms=timeout_ms).outcome
        return Proof(is_effective=all(outcome == "reset" for outcome in outcomes.values()), detail=outcomes)


SPEC = FaultSpec(
    name="reset",
    label="connections reset",
    colour="#af601a",
    target_kind="link",
    default_target="client->leader",
    make=Reset,
    parameters={"stream": "upstream", "delay_ms": 0},
    host_permit=HostPermit(word="reset", toxic="reset_peer"),
)
