"""Links whose proxies are switched off. The lease is on disk before a proxy is switched off. If one proxy cannot be
switched on again, the others are all the same."""

from __future__ import annotations

import contextlib

from chaos.faults.base import heal_each
from chaos.lease import Lease
from chaos.ports.links import Links
from chaos.toxiproxy.calls import NotFound


class DisabledLinks:
    """The links that one fault has switched off. Each link may be given once."""

    def __init__(self, links: Links, lease: Lease | None) -> None:
        self._links, self._lease = links, lease
        self._off: list[tuple[str, str | None]] = []  # link, lease entry
        self._proxies: set[tuple[str, str]] = set()  # (url of the server, name of the proxy)

    def disable(self, link: str) -> None:
        """Raises ToxiproxyError. Then the link counts as switched off, and `enable` repairs what was half done."""
        client, proxy = self._links.plain(link)
        if (client.url, proxy) in self._proxies:
            return  # this proxy also carries another link of the fault
        self._proxies.add((client.url, proxy))
        lease = self._lease if client.url else None  # otherwise the host of the proxy has the lease
        entry = lease.add_proxy_disabled(client.url, proxy, client.proxy(proxy).upstream) if lease else None
        self._off.append((link, entry))
        client.disable(proxy)

    def enable(self) -> None:
        """Enable all links, also if one fails. A failure is then raised, and the failed links may be tried
        again."""
        heal_each(reversed(self._off), self._enable)

    def _enable(self, off: tuple[str, str | None]) -> None:
        link, entry_id = off
        client, proxy = self._links.plain(link)
        with contextlib.suppress(NotFound):  # a proxy that does not exist is not switched off
            client.enable(proxy)
        if self._lease and entry_id:
            self._lease.remove(entry_id)
        self._off.remove(off)
