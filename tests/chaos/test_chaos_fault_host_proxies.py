"""Proxies of a fault host: only what its list allows, on the addresses of its list, and whatever breaks them is mended.

The server is the embedded one, and the broker behind it answers as much as a probe asks.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.fault_host import proxy_server
from chaos.fault_host.host import Refused
from chaos.fault_host.permits import parse_permits
from chaos.fault_host.proxies import ProbeWanted, ProxyFaults, ToxicWanted
from chaos.fault_host.proxy_server import ProxyServer, ProxyServerError
from chaos.fault_host.proxy_servers import ProxyServers
from chaos.fault_host.site import NotDone
from chaos.link_probe import LoadProbe
from chaos.process_identity import is_alive
from harness.clusters.ports import free_port

sys.path.insert(0, str(Path(__file__).parent))
import kafka_frames as kf

from tests.patience import wait_until

pytestmark = pytest.mark.slow  # real processes


class Operator:
    """Whoever wrote the list of this host."""

    def __init__(self, directory: Path, upstream: str) -> None:
        self.directory, self.upstream = directory, upstream
        self.ports = {name: free_port() for name in ("to-1", "clients")}
        self.said: list[str] = []
        self.server: ProxyServer | None = None
        self.faults: ProxyFaults | None = None

    def permits(
        self, *, allow: str = "cut, stall, latency", more: str = "", head: str = "", lost_after: str = "2s"
    ) -> str:
        return (
            f"lost_after: {lost_after}\n{head}proxies:\n"
            f"  to-1: {{listen: '127.0.0.1:{self.ports['to-1']}', upstream: '{self.upstream}', "
            f"carries: [2->1, 3->1], allow: [{allow}]{more}}}\n"
            f"  clients: {{listen: '127.0.0.1:{self.ports['clients']}', upstream: '{self.upstream}', "
            f"carries: [client->1], allow: [cut]}}\n"
        )

    def worker(self, text: str | None = None) -> ProxyFaults:
        """As it is after its start. The one before is gone, as after SIGKILL."""
        permits = parse_permits(text or self.permits())
        self.servers = ProxyServers(permits.proxies, self.directory / "leases", "here", binary=None)
        self.server = self.servers._all[False]
        self.faults = ProxyFaults(permits, self.servers, say=self.said.append)
        self.faults.open()
        self.faults.begin_run("run-1")
        return self.faults

    def outcome(self, name: str = "to-1", timeout_ms: int = 300) -> str:
        assert self.faults is not None
        found = self.faults.act("probe", name, probe=ProbeWanted(timeout_ms=timeout_ms)).probe
        assert found is not None
        return found.outcome

    def close(self) -> None:
        if self.server is not None:
            self.server.close(ends=True)


@pytest.fixture
def operator(tmp_path: Path, upstream_factory: Any) -> Iterator[Operator]:
    found = Operator(tmp_path, upstream_factory(kf.serve_api_versions).address)
    yield found
    found.close()


def toxic(kind: str, name: str = "slow", **attributes: int) -> ToxicWanted:
    return ToxicWanted(name=name, type=kind, stream="downstream", attributes=attributes)


def test_a_link_is_cut_and_joined_and_says_when(operator: Operator) -> None:
    faults = operator.worker()
    assert operator.outcome(timeout_ms=5_000) == "answered"
    before_ns = time.monotonic_ns()
    done = faults.act("proxy_cut", "to-1")
    assert before_ns <= done.from_ns <= done.to_ns <= time.monotonic_ns()
    assert done.state is not None
    assert not done.state.is_enabled
    assert operator.outcome() == "refused"
    assert operator.outcome("clients", 5_000) == "answered", "another proxy is left alone"
    with pytest.raises(NotDone, match=r"proxy to-1 \(2->1, 3->1\) is cut by this worker already"):
        faults.act("proxy_cut", "to-1")
    faults.act("proxy_join", "to-1")
    assert operator.outcome(timeout_ms=5_000) == "answered"
    with pytest.raises(NotDone, match=r"is not cut by this worker$"):
        faults.act("proxy_join", "to-1")


def test_toxics_come_and_go_and_their_effect_is_probed_here(operator: Operator) -> None:
    faults = operator.worker()
    done = faults.act("toxic_add", "to-1", toxic=toxic("latency", latency=200, jitter=0))
    assert done.state is not None
    assert [(each.name, each.attributes["latency"]) for each in done.state.toxics] == [("slow", 200)]
    probe = faults.act("probe", "to-1", probe=ProbeWanted(timeout_ms=5_000)).probe
    assert probe is not None
    assert probe.elapsed_us >= 160_000
    load = faults.act("probe", "to-1", probe=ProbeWanted(timeout_ms=5_000, size_bytes=8)).probe
    assert isinstance(load, LoadProbe)
    assert (load.outcome, load.size_bytes) == ("answered", 8)
    faults.act("toxic_remove", "to-1", toxic=toxic("", name="slow"))
    state = faults.act("proxy_state", "to-1").state
    assert state is not None
    assert state.toxics == ()
    with pytest.raises(NotDone, match=r"has no toxic slow of this worker$"):
        faults.act("toxic_remove", "to-1", toxic=toxic("", name="slow"))


def test_what_the_list_does_not_allow_is_refused_by_name(operator: Operator) -> None:
    faults = operator.worker()
    with pytest.raises(Refused, match=r"bandwidth .* of proxy to-1 .*: this host's list allows cut, stall, latency"):
        faults.act("toxic_add", "to-1", toxic=toxic("bandwidth", rate=10))
    faults.act("toxic_add", "to-1", toxic=toxic("bandwidth", name="stall", rate=0))  # which is a stall
    with pytest.raises(Refused, match=r"latency .* of proxy clients .*: this host's list allows cut"):
        faults.act("toxic_add", "clients", toxic=toxic("latency", latency=1))
    with pytest.raises(Refused, match=r"kafka_drop_response .* of proxy to-1 .*: this host's list allows cut, stall"):
        faults.act("toxic_add", "to-1", toxic=toxic("kafka_drop_response"))
    with pytest.raises(Refused, match=r"'kafka_log' of proxy to-1 .*: no list allows it"):
        faults.act("toxic_add", "to-1", toxic=toxic("kafka_log"))
    with pytest.raises(Refused, match=r"proxy_cut of proxy 127.0.0.1:1: this host has to-1, clients on its list"):
        faults.act("proxy_cut", "127.0.0.1:1")
    with pytest.raises(Refused, match="no action 'delete'"):
        faults.act("delete", "to-1")


def test_all_is_mended_when_the_harness_is_lost(operator: Operator) -> None:
    faults = operator.worker()
    faults.act("proxy_cut", "to-1")
    faults.act("toxic_add", "to-1", toxic=toxic("bandwidth", rate=0))

    def is_mended() -> bool:
        faults.step()
        return operator.outcome() == "answered"

    wait_until(is_mended, "it is mended")
    assert "proxy to-1 (2->1, 3->1) is whole: the harness was silent for 2 s" in operator.said
    for action, more in (("proxy_join", None), ("toxic_remove", toxic("", name="slow"))):
        with pytest.raises(NotDone, match="it was mended before, because the harness was silent for 2 s"):
            faults.act(action, "to-1", toxic=more)


def test_nothing_lasts_longer_than_the_operator_allows(operator: Operator) -> None:
    faults = operator.worker(operator.permits(more=", broken_at_most: 500ms", lost_after="60s"))
    faults.act("proxy_cut", "to-1")

    def is_mended() -> bool:
        faults.heard()
        faults.step()
        return operator.outcome() == "answered"

    wait_until(is_mended, "it is mended")
    assert operator.said[-1] == "proxy to-1 (2->1, 3->1) is whole: it lasted 0.5 s"


def test_another_run_finds_all_links_whole(operator: Operator) -> None:
    faults = operator.worker()
    faults.act("proxy_cut", "to-1")
    faults.begin_run("run-2")
    assert operator.outcome(timeout_ms=5_000) == "answered"


def test_a_killed_worker_leaves_the_links_and_the_next_one_mends_them(operator: Operator) -> None:
    faults = operator.worker()
    first = operator.server
    assert first is not None
    faults.act("proxy_cut", "to-1")
    faults.act("toxic_add", "to-1", toxic=toxic("bandwidth", rate=0))
    operator.worker()
    assert operator.server is not None
    assert operator.server.pid == first.pid, "it is the same server, which was not ended"
    assert operator.outcome(timeout_ms=5_000) == "answered"
    operator.worker(operator.permits().replace("2->1, 3->1", "2->1").replace("to-1:", "other:"))
    assert operator.server.client.proxies().keys() == {"other", "clients"}, "what the list no longer has is gone"
    assert operator.outcome("other", 5_000) == "answered"


def test_a_server_that_ends_is_started_again_and_the_fault_does_not_count(operator: Operator) -> None:
    faults = operator.worker(operator.permits(lost_after="60s"))
    assert operator.server is not None
    first = operator.server.pid
    faults.act("proxy_cut", "to-1")
    os.kill(first, signal.SIGKILL)

    def is_back() -> bool:
        faults.heard()
        faults.step()
        return operator.outcome() == "answered"

    wait_until(is_back, "another one carries the links")
    assert operator.server.pid != first
    with pytest.raises(NotDone, match="because the embedded toxiproxy there ended by itself"):
        faults.act("proxy_join", "to-1")


def test_the_links_stay_when_the_worker_ends_unless_the_operator_says_otherwise(operator: Operator) -> None:
    faults = operator.worker()
    assert operator.server is not None
    faults.act("proxy_cut", "to-1")
    identity = operator.server._identity
    assert identity is not None
    faults.close()
    assert is_alive(identity)
    assert f"(pid {identity.pid}); end it by its pid" in operator.said[-1]
    faults = operator.worker(operator.permits(head="proxies_outlive_worker: false\n"))
    assert operator.outcome(timeout_ms=5_000) == "answered", "it was mended at the end"
    faults.close()
    wait_until(lambda: not is_alive(identity), "the server ends with the worker")
    assert not list((operator.directory / "leases").glob("*.proxies.json"))


def test_a_server_that_does_not_end_when_it_is_asked_is_killed(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = operator.worker(operator.permits(head="proxies_outlive_worker: false\n"))
    assert operator.server is not None
    identity = operator.server._identity
    assert identity is not None
    monkeypatch.setattr(proxy_server, "STOP_S", 0.2)
    os.kill(identity.pid, signal.SIGSTOP)  # it hears no SIGTERM
    faults.close()
    assert not is_alive(identity)
    assert not list((operator.directory / "leases").glob("*.proxies.json"))


def test_an_address_that_is_taken_is_told_at_the_start(operator: Operator) -> None:
    operator.ports["clients"] = int(operator.upstream.rpartition(":")[2])
    text = operator.permits().replace(
        f"upstream: '{operator.upstream}', carries: [client", "upstream: '127.0.0.1:1', carries: [client"
    )
    with pytest.raises(ProxyServerError, match="address already in use"):
        operator.worker(text)


def test_a_file_that_is_none_of_ours_is_not_trusted(operator: Operator) -> None:
    operator.worker()
    operator.close()
    path = operator.directory / "leases" / "here.proxies.json"
    for text in ("{}", "[]", "x", json.dumps({"format": 1, "url": 1, "pid": 5, "start_ticks": 7})):
        path.write_text(text)
        path.chmod(0o600)
        with pytest.raises(ProxyServerError, match="remove the file"):
            operator.worker()
    path.unlink()
