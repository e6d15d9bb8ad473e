"""link_cut: both directions of a link: its connections end and new ones are refused, until healed."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from chaos.faults.base import FaultContext, FaultSpec, Parameter, Proof
from chaos.faults.probes import probe_link
from chaos.toxiproxy.client import NotFound, ToxiproxyError

PROBE_TIMEOUT_MS = 1000


class LinkCut:
    def __init__(self, context: FaultContext, parameters: Mapping[str, Parameter]) -> None:
        self._context = context
        self._cut: list[tuple[str, str | None]] = []  # link, lease entry

    def inject(self) -> None:
        for link in self._context.links:
            client, proxy = self._context.port.plain(link)
            lease = self._context.lease
            self._cut.append((link, lease.add_proxy_disabled(client.url, proxy) if lease else None))
            client.disable(proxy)

    def heal(self) -> None:
        """All links, also if one fails; then the first failure is raised and the failed ones may be tried again."""
        failures: list[ToxiproxyError] = []
        for link, entry_id in reversed(list(self._cut)):
            client, proxy = self._context.port.plain(link)
            try:
                with contextlib.suppress(NotFound):  # a proxy that is gone is not cut
                    client.enable(proxy)
            except ToxiproxyError as error:
                failures.append(error)
                continue
            if self._context.lease and entry_id:
                self._context.lease.remove(entry_id)
            self._cut.remove((link, entry_id))
        if failures:
            raise failures[0]

    def prove(self) -> Proof:
        outcomes: dict[str, object] = {}
        for link in self._context.links:
            client, proxy = self._context.port.plain(link)
            outcomes[link] = probe_link(client.proxy(proxy).listen, timeout_ms=PROBE_TIMEOUT_MS).outcome
        return Proof(is_effective=all(outcome == "refused" for outcome in outcomes.values()), detail=outcomes)


SPEC = FaultSpec(
    name="link_cut",
    label="link cut",
    colour="#c0392b",
    target_kind="link",
    default_target="followers->leader",
    make=LinkCut,
    parameters={},
)
