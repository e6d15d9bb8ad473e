"""One proxy may carry several links: a fault breaks it once, and breaks no link that its target does not name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from chaos.faults import FAULTS
from chaos.faults.base import FaultRun
from chaos.link_probe import LinkProbe, LoadProbe
from chaos.targets import PartitionOfInterest, TargetError
from chaos.toxiproxy.states import ProxyState, ToxicState

BY_TARGET = {f"to-{j}": frozenset(f"internal-{i}-{j}" for i in (1, 2, 3) if i != j) for j in (1, 2, 3)}


class Server:
    """chaos.ports.links.LinkServer that remembers."""

    url = ""

    def __init__(self) -> None:
        self.said: list[tuple[str, ...]] = []

    def proxy(self, name: str) -> ProxyState:
        return ProxyState(name=name, listen="", upstream="", is_enabled=True)

    def enable(self, name: str) -> ProxyState:
        self.said.append(("enable", name))
        return self.proxy(name)

    def disable(self, name: str) -> ProxyState:
        self.said.append(("disable", name))
        return self.proxy(name)

    def add_toxic(
        self, proxy: str, type_name: str, attributes: Mapping[str, Any], *, stream: str, name: str
    ) -> ToxicState:
        self.said.append(("add", proxy, type_name, stream))
        return self.toxic(proxy, name)

    def retire_toxic(self, proxy: str, name: str, *, then: Callable[[], None]) -> None:
        self.said.append(("remove", proxy))
        then()

    def toxic(self, proxy: str, name: str) -> ToxicState:
        return ToxicState(name=name, type="", stream="", toxicity=1.0, attributes={})


class Prober:
    def probe_link(self, *, timeout_ms: int) -> LinkProbe:
        return LinkProbe(outcome="refused", elapsed_us=1)

    def probe_load(self, *, stream: str, size_bytes: int, timeout_ms: int) -> LoadProbe:
        return LoadProbe(outcome="answered", size_bytes=size_bytes, elapsed_us=1)


class Port:
    """Three brokers of which 2 leads, and proxies of fault hosts. No lease may be written here."""

    broker_ids = (1, 2, 3)

    def __init__(self, proxies: Mapping[str, frozenset[str]]) -> None:
        self.server, self._proxies = Server(), proxies
        self.brokers = self.links = self

    def leader(self, topic: str, partition: int) -> int:
        return 2

    def replicas(self, topic: str, partition: int) -> tuple[int, ...]:
        return (2, 1, 3)

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(link for links in self._proxies.values() for link in links))

    def prober(self, link: str) -> Prober:
        return Prober()

    def joint_links(self) -> tuple[frozenset[str], ...]:
        return tuple(self._proxies.values())

    def plain(self, link: str) -> tuple[Server, str]:
        return self.server, next(name for name, links in self._proxies.items() if link in links)


def fault(name: str, port: Port, target: str) -> FaultRun:
    spec = FAULTS[name]
    lease: Any = object()  # whatever is asked of it fails
    context = spec.context(target, port, PartitionOfInterest(topic="t"), lease, "x")  # type: ignore[arg-type]
    return spec.make(context, spec.parameters)


def test_a_proxy_of_two_links_is_cut_once_and_without_a_lease_here() -> None:
    port = Port(BY_TARGET)
    cut = fault("link_cut", port, "followers->leader")
    cut.inject()
    proof = cut.prove()
    assert proof.is_effective
    assert proof.detail == {"internal-1-2": "refused", "internal-3-2": "refused"}
    cut.heal()
    assert port.server.said == [("disable", "to-2"), ("enable", "to-2")]


def test_a_proxy_of_two_links_gets_a_toxic_once() -> None:
    port = Port(BY_TARGET)
    slow = fault("latency", port, "followers->leader")
    slow.inject()
    slow.heal()
    assert port.server.said == [("add", "to-2", "latency", "downstream"), ("remove", "to-2")]


@pytest.mark.parametrize("target", ["follower:0->leader", "leader->follower:0", "leader<->followers"])
def test_a_target_that_names_only_some_of_a_proxys_links_is_refused(target: str) -> None:
    with pytest.raises(TargetError, match=r"the proxy that carries .* carries .* too"):
        fault("link_cut", Port(BY_TARGET), target)


def test_the_way_back_of_a_one_way_cut_counts_too() -> None:
    """Requests of the followers stop at the leader's proxy. Their answers come by way of each follower's own."""
    with pytest.raises(TargetError, match="too"):
        fault("one_way_cut", Port(BY_TARGET), "followers->leader")
    pairs = {link: frozenset({link}) for links in BY_TARGET.values() for link in links}
    port = Port(pairs)
    fault("one_way_cut", port, "followers->leader").inject()
    assert [said[1:] for said in port.server.said] == [
        ("internal-1-2", "bandwidth", "upstream"), ("internal-3-2", "bandwidth", "upstream"),
        ("internal-2-1", "bandwidth", "downstream"), ("internal-2-3", "bandwidth", "downstream"),
    ]  # fmt: skip
