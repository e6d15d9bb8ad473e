"""Links whose proxies are switched off. This is on disk before it is done. Each is switched on again even if another
one fails."""

from __future__ import annotations

import contextlib

from chaos.faults.base import FaultContext
from chaos.toxiproxy.calls import NotFound, ToxiproxyError


class DisabledLinks:
    """Of one fault; a link may be given once."""

    def __init__(self, context: FaultContext) -> None:
        self._context = context
        self._off: list[tuple[str, str | None]] = []  # link, lease entry
        self._proxies: set[tuple[str, str]] = set()  # url of the server, name

    def disable(self, link: str) -> None:
        """Raises ToxiproxyError. Then the link counts as switched off, and `enable` repairs what was half done."""
        client, proxy = self._context.port.plain(link)
        if (client.url, proxy) in self._proxies:
            return  # it carries another link of this fault too
        self._proxies.add((client.url, proxy))
        lease = self._context.lease if client.url else None  # else its own host has the lease
        entry = lease.add_proxy_disabled(client.url, proxy, client.proxy(proxy).upstream) if lease else None
        self._off.append((link, entry))
        client.disable(proxy)

    def enable(self) -> None:
        """Enables all links, also if one fails. Then the first failure is raised, and the failed ones may be tried
        again."""
        failures: list[ToxiproxyError] = []
        for link, entry_id in reversed(list(self._off)):
            client, proxy = self._context.port.plain(link)
            try:
                with contextlib.suppress(NotFound):  # a proxy that does not exist is not switched off
                    client.enable(proxy)
            except ToxiproxyError as error:
                failures.append(error)
                continue
            if self._context.lease and entry_id:
                self._context.lease.remove(entry_id)
            self._off.remove((link, entry_id))
        if failures:
            raise failures[0]
