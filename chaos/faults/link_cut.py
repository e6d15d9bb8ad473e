"""link_cut: a link is cut in both directions. Its connections end and new ones are refused, until healed."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.faults.base import FaultContext, FaultSpec, HostPermit, Parameter, Proof
from chaos.faults.disabled_links import DisabledLinks
from chaos.faults.probes import door_of, probe_link

PROBE_TIMEOUT_MS = 1000


class LinkCut:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._cut = DisabledLinks(context.port.links, context.lease)

    def inject(self) -> None:
        for link in self._context.links:
            self._cut.disable(link)

    def heal(self) -> None:
        self._cut.enable()

    def prove(self) -> Proof:
        outcomes: dict[str, object] = {}
        for link in self._context.links:
            outcomes[link] = probe_link(door_of(self._context.port.links, link), timeout_ms=PROBE_TIMEOUT_MS).outcome
        return Proof(is_effective=all(outcome == "refused" for outcome in outcomes.values()), detail=outcomes)


SPEC = FaultSpec(
    name="link_cut",
    label="link cut",
    colour="#c0392b",
    target_kind="link",
    default_target="followers->leader",
    make=LinkCut,
    parameters={},
    host_permit=HostPermit(word="cut"),
)
