"""Links whose proxies run on the brokers' hosts: what faults see as a Toxiproxy server, and the workers there do.

A worker there breaks and mends its proxies and keeps the leases. What it has mended by itself cannot be mended again:
then the call fails, because the fault was not what it should be. Shown by tests/harness/test_harness_host_links.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from chaos.link_probe import LinkProbe, LoadProbe
from chaos.ports.links import LinkProber, LinkServer
from chaos.ports.security import ProbeAccess
from chaos.toxiproxy.calls import NotApplied, NotFound, ToxiproxyError
from chaos.toxiproxy.states import ProxyState, ToxicState
from chaos.toxiproxy.toxic import AttributeValue
from harness.clusters.proxies import LinkProxies
from harness.errors import HarnessError

CLIENT: Final = "client-"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProxy:
    """One proxy of a fault host, as its operator has declared it."""

    host: str
    name: str
    links: frozenset[str]
    allow: frozenset[str]
    listen: str
    upstream: str
    is_tls: bool = False
    has_requests: bool = False  # it knows Kafka's requests, and can record which batches a broker took
    server: str = ""

    @property
    def key(self) -> str:
        """Names of proxies are of their host."""
        return f"{self.host}/{self.name}"


class ProxyAnswer(Protocol):
    """What is needed here of host_answers.HostAnswer."""

    @property
    def proxy(self) -> ProxyState | None: ...
    @property
    def probe(self) -> LinkProbe | LoadProbe | None: ...


# (action, proxy, toxic, probe): HarnessError if it was not done, or if nobody knows.
Ask = Callable[[str, HostProxy, Mapping[str, object] | None, Mapping[str, object] | None], ProxyAnswer]


class HostServer:
    """chaos.ports.links.LinkServer over the workers. Proxies are named by their keys."""

    url = ""

    def __init__(self, ask: Ask, proxies: Sequence[HostProxy]) -> None:
        self._ask_host = ask
        self._by_key = {proxy.key: proxy for proxy in proxies}

    def proxy(self, name: str) -> ProxyState:
        return self._change("proxy_state", name)

    def enable(self, name: str) -> ProxyState:
        return self._expect(self._change("proxy_join", name), is_enabled=True)

    def disable(self, name: str) -> ProxyState:
        return self._expect(self._change("proxy_cut", name), is_enabled=False)

    def add_toxic(
        self, proxy: str, type_name: str, attributes: Mapping[str, AttributeValue], *, stream: str, name: str
    ) -> ToxicState:
        toxic = {"name": name, "type": type_name, "stream": stream, "attributes": dict(attributes)}
        found = _toxic(self._change("toxic_add", proxy, toxic=toxic), name)
        wrong = {key: got for key, value in attributes.items() if (got := found.attributes.get(key)) != value}
        if wrong:
            raise NotApplied(f"toxic {name} of {proxy} has {wrong}, asked for {dict(attributes)}")
        return found

    def retire_toxic(self, proxy: str, name: str, *, then: Callable[[], None]) -> None:
        self._change("toxic_remove", proxy, toxic={"name": name})
        then()

    def toxic(self, proxy: str, name: str) -> ToxicState:
        return _toxic(self.proxy(proxy), name)

    def probe(self, key: str, probe: Mapping[str, object]) -> LinkProbe | LoadProbe:
        """Raises NotApplied without a result, because what cannot be probed is not proved."""
        found = self._ask("probe", key, probe=probe).probe
        if found is None:
            raise NotApplied(f"fault host {self._by_key[key].host} gave no result of a probe of {key}")
        return found

    def _change(self, action: str, key: str, *, toxic: Mapping[str, object] | None = None) -> ProxyState:
        state = self._ask(action, key, toxic=toxic).proxy
        if state is None:
            raise NotApplied(f"fault host {self._by_key[key].host} does not say how {key} is after {action}")
        return state

    def _ask(
        self,
        action: str,
        key: str,
        *,
        toxic: Mapping[str, object] | None = None,
        probe: Mapping[str, object] | None = None,
    ) -> ProxyAnswer:
        try:
            return self._ask_host(action, self._by_key[key], toxic, probe)
        except HarnessError as error:
            raise ToxiproxyError(str(error)) from error

    def _expect(self, state: ProxyState, *, is_enabled: bool) -> ProxyState:
        if state.is_enabled != is_enabled:
            raise NotApplied(f"{state.name} should be {'enabled' if is_enabled else 'disabled'} and is not")
        return state


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prober:
    server: HostServer
    key: str

    def probe_link(self, *, timeout_ms: int) -> LinkProbe:
        found = self.server.probe(self.key, {"timeout_ms": timeout_ms})
        return LinkProbe(outcome=found.outcome, elapsed_us=found.elapsed_us)

    def probe_load(self, *, stream: str, size_bytes: int, timeout_ms: int) -> LoadProbe:
        wanted = {"timeout_ms": timeout_ms, "stream": stream, "size_bytes": size_bytes}
        found = self.server.probe(self.key, wanted)
        size_bytes = found.size_bytes if isinstance(found, LoadProbe) else 0
        return LoadProbe(outcome=found.outcome, elapsed_us=found.elapsed_us, size_bytes=size_bytes)


class LinkDoors:
    """Implements chaos.ports.links.Links: says which proxy carries which link.

    It may be one of a fault host, or one of ours before a broker. Where there are proxies of ours, clients go through
    these, and a fault on a client's link acts there.
    """

    def __init__(self, ask: Ask, proxies: Sequence[HostProxy], own: LinkProxies | None) -> None:
        self._server, self._own = HostServer(ask, proxies), own
        self._hosts: dict[str, HostProxy] = {}
        self._joint: list[frozenset[str]] = []
        for proxy in proxies:
            hidden = frozenset(link for link in proxy.links if own is not None and link.startswith(CLIENT))
            reached = proxy.links - hidden
            self._hosts |= dict.fromkeys(reached, proxy)
            if reached:
                self._joint.append(reached | {f"{link} at {proxy.host}" for link in hidden})

    def names(self) -> tuple[str, ...]:
        """Those of links that go through proxies of ours, then the others."""
        return (*(() if self._own is None else self._own.names()), *sorted(self._hosts))

    def proxy_of(self, link: str) -> HostProxy | None:
        return self._hosts.get(link)

    def plain(self, link: str) -> tuple[LinkServer, str]:
        found = self._hosts.get(link)
        if found is not None:
            return self._server, found.key
        assert self._own is not None, f"{link} was resolved, so there is a proxy on it"
        return self._own.plain(link)

    def kafka(self, link: str) -> tuple[LinkServer, str]:
        found = self._hosts.get(link)
        if found is not None and found.has_requests:
            return self._server, found.key
        if self._own is None:
            raise ToxiproxyError(f"{link}: the proxy of its fault host may not read Kafka's requests")
        return self._own.kafka(link)

    def probe_access(self, link: str) -> ProbeAccess:
        if self._own is None or link in self._hosts:
            return ProbeAccess()  # the worker there knows
        return self._own.probe_access(link)

    def prober(self, link: str) -> LinkProber | None:
        found = self._hosts.get(link)
        return None if found is None else _Prober(server=self._server, key=found.key)

    def joint_links(self) -> Sequence[frozenset[str]]:
        return tuple(self._joint)


def recorders(proxies: Sequence[HostProxy], brokers: Sequence[int]) -> Mapping[str, Mapping[str, str]]:
    """The links of clients whose requests can be recorded, by fault host and names of proxies. Empty unless all
    brokers have such a proxy: a record with a hole foretells nothing."""
    found: dict[str, dict[str, str]] = {}
    for proxy in proxies:
        if proxy.has_requests and len(proxy.links) == 1:
            (link,) = proxy.links
            found.setdefault(proxy.host, {})[proxy.name] = link
    links = {link for those in found.values() for link in those.values()}
    return found if brokers and links >= {f"{CLIENT}{broker}" for broker in brokers} else {}


def _toxic(state: ProxyState, name: str) -> ToxicState:
    found = next((toxic for toxic in state.toxics if toxic.name == name), None)
    if found is None:
        raise NotFound(f"{state.name} has no toxic {name}", status=404)
    return found
