"""A proxy for every link of a cluster: which Toxiproxy server carries which link, and the clients of these servers.

Plain links (broker to broker, broker to controller) go through the chosen server: a URL, the real one, or the embedded
one. Client links go through the embedded server, because only that one knows Kafka. If the chosen server is another
one, the two are chained, so that both kinds of toxic work on these links.
"""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path
from typing import Final

from chaos.lease import Lease
from chaos.ports.security import ProbeAccess
from chaos.toxiproxy.calls import NotFound, ToxiproxyError
from chaos.toxiproxy.client import ToxiproxyClient
from chaos.toxiproxy.lookup import RunningServer, ServerUnavailable, find_binary, start_embedded, start_real, use_server
from chaos.toxiproxy.states import ProxySpec
from harness.clusters.base import Address, Link
from harness.clusters.broker_process import popen_dying_with_us
from harness.clusters.kafka.jars import cache_directory
from harness.clusters.ports import PortAllocator
from harness.errors import EnvironmentFault, UsageError
from runlog.files.nearest import nearest_name

AUTO: Final = "auto"
EMBEDDED: Final = "embedded"
_URL_SCHEMES: Final = ("http://", "https://")


def check_proxy_choice(choice: str) -> None:
    """UsageError for a value of `--toxiproxy` that can never be right. Whether a server answers is found later, when it
    is asked."""
    if choice not in (AUTO, EMBEDDED) and not choice.startswith(_URL_SCHEMES):
        near = nearest_name(choice, (AUTO, EMBEDDED)) or (f"http://{choice}" if ":" in choice else None)
        raise UsageError(
            f"--toxiproxy {choice}: expected auto, embedded or a URL like http://127.0.0.1:8474"
            + (f"; did you mean {near!r}?" if near else "")
        )


class LinkProxies:
    """The proxies of one cluster. On a shared server their names have a prefix, so that runs do not collide."""

    def __init__(
        self,
        choice: str,
        *,
        directory: Path,
        lease: Lease | None,
        seed: int,
        ports: PortAllocator,
        logs_all_produce: bool = False,
    ) -> None:
        self._choice, self._directory, self._lease, self._seed, self._ports = choice, directory, lease, seed, ports
        self._logs_all_produce = logs_all_produce
        self._plain: RunningServer | None = None
        self._kafka: RunningServer | None = None
        self._clients: dict[str, ToxiproxyClient] = {}
        self._created: list[tuple[str, str]] = []
        self._lease_entries: list[str] = []
        self._prefix = ""
        self._links: dict[str, Link] = {}

    @property
    def wire_log_path(self) -> Path:
        """The file into which the Kafka-aware server writes Produce exchanges."""
        return self._directory / "wire.jsonl"

    @property
    def exchange_log_path(self) -> Path:
        """Empty until a client link's proxy is asked for its exchanges (ToxiproxyClient.watch_exchanges)."""
        return self._directory / "exchanges.jsonl"

    def wire_log_problem(self) -> str:
        """Why requests are missing in that file; empty if it has all until now. Waits for the lines on their way."""
        assert self._kafka is not None, "open() comes first"
        try:
            return self._client(self._kafka).request_log_problem()
        except ToxiproxyError as error:
            return str(error)

    @property
    def description(self) -> str:
        """What reports call the path: "embedded toxiproxy", or both servers when they are chained, and whether TLS ends
        there and begins anew."""
        name = EMBEDDED + " toxiproxy" if self._plain is None or self._plain.is_embedded else self._plain.label
        links = self._links.values()
        if any(link.listen_tls is not None for link in links):
            return f"{name}, which ends TLS and begins it anew"
        return f"{name}, behind which TLS begins" if any(link.upstream_tls is not None for link in links) else name

    def problem(self) -> str:
        """Names our server that has ended by itself. Empty while all run."""
        for server, log in ((self._plain, "toxiproxy.log"), (self._kafka, "embedded.log")):
            if server is not None and server.process is not None and server.process.poll() is not None:
                return (
                    f"the {server.label} that carries the links ended with {server.process.returncode}: "
                    f"see {self._directory / log}"
                )
        return ""

    def open(self, links: tuple[Link, ...]) -> None:
        """Start the servers and make a proxy for each link. EnvironmentFault with the server's words."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._links = {link.name: link for link in links}
        try:
            self._start_servers()
            self._create(
                [link for link in links if link.kind != "client"], [link for link in links if link.kind == "client"]
            )
        except (ServerUnavailable, ToxiproxyError) as error:
            self.close()
            raise EnvironmentFault(f"the proxies of the links could not be set up: {error}") from error

    def close(self) -> None:
        """Remove our proxies from a server of somebody else's; stop servers of our own. May be called twice."""
        if self._plain is not None and self._plain.process is None:
            client = self._client(self._plain)
            for url, name in self._created:
                if url == self._plain.url:
                    with contextlib.suppress(NotFound, ToxiproxyError):
                        client.delete(name)
        self._created.clear()
        while self._lease_entries and self._lease is not None:
            self._lease.remove(self._lease_entries.pop())
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        for server in (self._kafka, self._plain):
            if server is not None:
                server.stop()
        self._kafka = self._plain = None

    # --- as chaos.ports.links.Links ---------------------------------------------------------------------------------

    def names(self) -> tuple[str, ...]:
        return tuple(self._links)

    def plain(self, link: str) -> tuple[ToxiproxyClient, str]:
        """(client, proxy name) for Toxiproxy's own toxics and for cutting the link."""
        assert self._plain is not None, "open() comes first"
        return self._client(self._plain), self._prefix + link

    def probe_access(self, link: str) -> ProbeAccess:
        """How to pass `plain`. A plain server behind the embedded one sees what the embedded one says to the broker."""
        found = self._links[link]
        ended = found.listen_tls if self._plain is self._kafka else found.upstream_tls
        is_tls = found.carries_tls or ended is not None
        if found.probes is None:
            return ProbeAccess(is_tls=is_tls)
        certificate_file = found.probes.certificate_file if is_tls else ""
        return ProbeAccess(is_tls=is_tls, certificate_file=certificate_file, credentials=found.probes.credentials)

    def kafka(self, link: str) -> tuple[ToxiproxyClient, str]:
        """(client, proxy name) for Kafka toxics; client links only."""
        assert self._kafka is not None, "open() comes first"
        return self._client(self._kafka), link

    def prober(self, link: str) -> None:
        """Probes run here, where the proxies are."""

    def joint_links(self) -> tuple[frozenset[str], ...]:
        """None: each link has a proxy of its own."""
        return ()

    # --- inside -----------------------------------------------------------------------------------------------------

    def _start_servers(self) -> None:
        log_path = self._directory / "toxiproxy.log"
        binary = None
        if self._choice == AUTO:
            binary = find_binary(None, [cache_directory() / "bin"])
        if self._choice not in (AUTO, EMBEDDED):
            self._plain = use_server(self._choice)
            self._prefix = f"run-{secrets.token_hex(5)}-"
        elif binary is not None:
            self._plain = start_real(binary, lease=self._lease, log_path=log_path, starter=popen_dying_with_us)
        self._kafka = start_embedded(
            wire_log=self.wire_log_path,
            exchange_log=self.exchange_log_path,
            lease=self._lease,
            log_path=self._directory / "embedded.log",
            seed=self._seed,
            starter=popen_dying_with_us,
        )
        if self._plain is None:
            self._plain = self._kafka

    def _create(self, between_brokers: list[Link], from_clients: list[Link]) -> None:
        assert self._plain is not None
        assert self._kafka is not None
        plain = [self._spec(link.name, link.listen, link.upstream) for link in between_brokers]
        if self._plain is self._kafka:
            kafka = [self._client_spec(link, link.upstream) for link in from_clients]
        else:
            kafka = []
            for link in from_clients:
                between = Address(host=self._ports.host, port=self._ports.take())
                plain.append(self._spec(link.name, between, link.upstream))
                kafka.append(self._client_spec(link, between))
        if self._plain.process is None:
            self._create_on_a_shared_server(plain)
        else:
            self._client(self._plain).populate(plain)
        self._client(self._kafka).populate(kafka)

    def _create_on_a_shared_server(self, specs: list[ProxySpec]) -> None:
        """One by one, because a name that is taken is then refused. `populate` would replace somebody else's proxy."""
        assert self._plain is not None
        for spec in specs:
            # Our own servers end with us. This one would keep our proxies.
            if self._lease is not None:
                self._lease_entries.append(self._lease.add_proxy(self._plain.url, spec.name, spec.upstream))
            self._client(self._plain).create(spec)
            self._created.append((self._plain.url, spec.name))

    def _spec(self, name: str, listen: Address, upstream: Address) -> ProxySpec:
        return ProxySpec(name=self._prefix + name, listen=str(listen), upstream=str(upstream))

    def _client_spec(self, link: Link, upstream: Address) -> ProxySpec:
        """A proxy for a client's link, with features of the embedded server: log, other addresses in responses, TLS."""
        tls = link.upstream_tls
        return ProxySpec(
            name=link.name,
            listen=str(link.listen),
            upstream=str(upstream),
            kafka_log=self._logs_all_produce,
            kafka_addresses=link.shown_addresses,
            upstream_tls=None if tls is None else {**tls, "server_name": link.upstream.host},
            listen_tls=link.listen_tls,
        )

    def _client(self, server: RunningServer) -> ToxiproxyClient:
        if server.url not in self._clients:
            self._clients[server.url] = server.client()
        return self._clients[server.url]
