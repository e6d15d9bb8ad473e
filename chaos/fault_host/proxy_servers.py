"""The two proxy servers of a fault host: one for plain proxies, and one for proxies that know Kafka's requests.

Plain proxies run on the original Toxiproxy, if it is installed. Only the embedded server knows requests. It has all
toxics of the original too, so nothing is chained. Shown by tests/chaos/test_chaos_fault_host_proxies.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from chaos.fault_host.proxy_permits import ProxyPermit
from chaos.fault_host.proxy_server import ProxyServer
from chaos.toxiproxy.client import ToxiproxyClient


class ProxyServers:
    """A server without a proxy is not started. `name` is the worker's name."""

    def __init__(self, permits: Mapping[str, ProxyPermit], root: Path, name: str, *, binary: Path | None) -> None:
        self._of_requests = frozenset(proxy for proxy, permit in permits.items() if permit.requests)
        plain = {proxy: permit for proxy, permit in permits.items() if not permit.requests}
        reading = {proxy: permit for proxy, permit in permits.items() if permit.requests}
        self.wire_log = root / f"{name}.wire.jsonl"
        self._all = {
            False: ProxyServer(plain, root, name, binary=binary),
            True: ProxyServer(reading, root, f"{name}.requests", binary=None, wire_log=self.wire_log),
        }
        self._used = [self._all[reads] for reads, those in ((False, plain), (True, reading)) if those]

    def open(self) -> None:
        """Find or start them. Raises ProxyServerError."""
        for server in self._all.values():
            if server not in self._used:
                server.end_left()  # first: the other one may need its addresses
        for server in self._used:
            server.open()

    def of(self, proxy: str) -> ToxiproxyClient:
        return self._all[proxy in self._of_requests].client

    @property
    def label(self) -> str:
        """What reports call them: "toxiproxy 2.12.0", "embedded toxiproxy" or both."""
        return " and ".join(dict.fromkeys(server.label for server in self._used))

    def described(self) -> str:
        return ", ".join(f"{server.label} (pid {server.pid})" for server in self._used)

    def is_alive(self) -> bool:
        return all(server.is_alive() for server in self._used)

    def reads_requests(self) -> bool:
        """Whether the server that knows requests runs."""
        return bool(self._of_requests) and self._all[True].is_alive()

    @property
    def identity_of_reader(self) -> int:
        """The pid of the server that knows requests: another one has not seen what this one saw."""
        return self._all[True].pid

    def close(self, *, ends: bool) -> None:
        with ExitStack() as stack:  # each is closed, whatever becomes of another one
            for server in self._used:
                stack.callback(server.close, ends=ends)
