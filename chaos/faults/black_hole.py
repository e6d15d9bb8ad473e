"""black_hole: what is sent over a link is thrown away, connections stay open; healing closes them.

No FIN, no RST: whoever waits for an answer learns of it by his own timeout only. Bytes sent meanwhile are gone, so the
streams cannot go on (`link_stall` is the lossless kind).
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.faults.base import FaultContext, FaultSpec, Parameter, Proof
from chaos.faults.link_stall import SILENCE_MS
from chaos.faults.probes import probe_link
from chaos.faults.toxics import LinkToxics, streams_of


class BlackHole:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._streams = streams_of(parameters["stream"])
        self._toxics = LinkToxics(door=context.port.plain, lease=context.lease, name=context.toxic_name, type="timeout")

    def inject(self) -> None:
        self._toxics.add(self._context.links, self._streams, {"timeout": 0})

    def heal(self) -> None:
        self._toxics.remove()

    def prove(self) -> Proof:
        outcomes: dict[str, object] = {}
        for link in self._context.links:
            client, proxy = self._context.port.plain(link)
            outcomes[link] = probe_link(client.proxy(proxy).listen, timeout_ms=SILENCE_MS).outcome
        return Proof(
            is_effective=all(outcome == "silent" for outcome in outcomes.values()),
            detail={"silent_ms": SILENCE_MS, "links": outcomes},
        )


SPEC = FaultSpec(
    name="black_hole",
    label="black hole",
    colour="#1b2631",
    target_kind="link",
    default_target="client->leader",
    make=BlackHole,
    parameters={"stream": "both"},
)
