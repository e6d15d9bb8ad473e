"""Links as faults see them: the proxies of a cluster, the servers that they run on, and how a link is probed.

harness/clusters/proxies.py implements them for proxies of ours, hosts/host_links.py for those of fault hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from chaos.link_probe import LinkProbe, LoadProbe
from chaos.ports.security import ProbeAccess
from chaos.toxiproxy.states import ProxyState, ToxicState
from chaos.toxiproxy.toxic import AttributeValue


class Links(Protocol):
    """The proxies on the links of a cluster, by the names of the links."""

    def names(self) -> Sequence[str]:
        """`client-<j>`, `internal-<i>-<j>`, `controller-<i>-<j>`."""

    def plain(self, link: str) -> tuple[LinkServer, str]:
        """The server and the name of the proxy, for cutting a link and for Toxiproxy's own toxics."""

    def kafka(self, link: str) -> tuple[LinkServer, str]:
        """The same for Kafka toxics, on client links."""

    def probe_access(self, link: str) -> ProbeAccess:
        """TLS and credentials that a probe through the proxy of `plain` needs to get an answer of the broker."""

    def prober(self, link: str) -> LinkProber | None:
        """What probes a link whose proxy runs on another host. None for a link whose proxy is our own."""

    def joint_links(self) -> Sequence[frozenset[str]]:
        """The links that each proxy on another host carries. A fault on one of them affects all."""


class LinkServer(Protocol):
    """The Toxiproxy server of a link. It is a server that we reach by its API (ToxiproxyClient), or one on another host
    that we reach through the worker there. Every call takes effect before it returns, or raises ToxiproxyError."""

    @property
    def url(self) -> str:
        """The URL of its API. Empty for a server on another host, where the worker keeps the leases."""

    def proxy(self, name: str) -> ProxyState: ...

    def enable(self, name: str) -> ProxyState: ...

    def disable(self, name: str) -> ProxyState:
        """Close the connections of the proxy. Later ones are refused."""

    def add_toxic(
        self,
        proxy: str,
        type_name: str,
        attributes: Mapping[str, AttributeValue],
        *,
        stream: str,
        name: str,
    ) -> ToxicState: ...

    def retire_toxic(self, proxy: str, name: str, *, then: Callable[[], None]) -> None:
        """Remove the toxic, perhaps later. `then` is called when it is removed."""

    def toxic(self, proxy: str, name: str) -> ToxicState: ...


class LinkProber(Protocol):
    """Probes a link from the host of its proxy, because other hosts may not reach the proxy."""

    def probe_link(self, *, timeout_ms: int) -> LinkProbe: ...

    def probe_load(self, *, stream: str, size_bytes: int, timeout_ms: int) -> LoadProbe: ...
