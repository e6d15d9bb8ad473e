"""Adds one toxic to several links and removes it again. All faults that use toxics share this."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from chaos.faults.base import FaultContext, Proof, heal_each
from chaos.faults.probes import door_of, probe_link
from chaos.lease import Lease
from chaos.ports.links import LinkServer
from chaos.toxiproxy.states import ToxicState
from chaos.toxiproxy.toxic import AttributeValue

SILENCE_MS = 300  # an ApiVersions round trip takes well below 10 ms here

Door = Callable[[str], tuple[LinkServer, str]]  # link name -> server, proxy name
_Placed = tuple[str, str, str | None]  # link, toxic, lease entry


@dataclass(slots=True, kw_only=True)
class LinkToxics:
    """One toxic on several links. `door` is `plain` or `kafka` of the cluster port."""

    door: Door
    lease: Lease | None
    name: str
    type: str
    _placed: list[_Placed] = field(default_factory=list)

    def add(self, links: Sequence[str], streams: Sequence[str], attributes: Mapping[str, AttributeValue]) -> None:
        """Add the toxic. A proxy that carries several of the links gets it once."""
        done: set[tuple[str, str]] = set()
        for link in links:
            client, proxy = self.door(link)
            if (client.url, proxy) in done:
                continue
            done.add((client.url, proxy))
            lease = self.lease if client.url else None  # otherwise the proxy's host has the lease
            upstream = client.proxy(proxy).upstream if lease else ""
            for stream in streams:
                toxic = f"{self.name}-{stream}"
                entry_id = lease.add_toxic(client.url, proxy, upstream, toxic) if lease else None
                self._placed.append((link, toxic, entry_id))
                client.add_toxic(proxy, self.type, attributes, stream=stream, name=toxic)

    def remove(self) -> None:
        """Remove the toxic from all links, also if one fails. A failure is then raised, and another call tries
        the rest."""
        heal_each(reversed(self._placed), self._retire)

    def _retire(self, placed: _Placed) -> None:
        link, toxic, entry_id = placed
        client, proxy = self.door(link)
        client.retire_toxic(proxy, toxic, then=partial(self._forget, entry_id))
        self._placed.remove(placed)

    def _forget(self, entry_id: str | None) -> None:
        if self.lease and entry_id:
            self.lease.remove(entry_id)

    def states(self) -> dict[str, ToxicState]:
        """The toxics by link. Raises NotFound if one is gone."""
        found: dict[str, ToxicState] = {}
        for link, toxic, _ in self._placed:
            client, proxy = self.door(link)
            found[link] = client.toxic(proxy, toxic)
        return found


def streams_of(parameter: object) -> tuple[str, ...]:
    """The streams that the parameter `stream` means: upstream, downstream or both."""
    return ("upstream", "downstream") if parameter == "both" else (str(parameter),)


def prove_silent(context: FaultContext, links: Sequence[str], detail: Mapping[str, object]) -> Proof:
    """Prove that each link takes a request and gives no answer. `detail` adds further facts."""
    outcomes: dict[str, object] = {}
    for link in links:
        outcomes[link] = probe_link(door_of(context.port.links, link), timeout_ms=SILENCE_MS).outcome
    return Proof(
        is_effective=all(outcome == "silent" for outcome in outcomes.values()), detail={**detail, "links": outcomes}
    )
