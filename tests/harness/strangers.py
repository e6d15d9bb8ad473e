"""Three brokers of somebody else, and a fault worker for each: what an operator starts, and allows.

The operator starts his brokers by scripts that write pid files. No process of the harness is a parent of a broker.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Literal

from chaos.fault_host.proxy_permits import BREAKAGES, KAFKA
from chaos.process_identity import ProcessIdentity, is_alive, read_identity, read_state
from harness.cluster_security import ClusterSecurity
from harness.clusters.base import ClusterKey
from harness.clusters.cluster_id import new_cluster_id
from harness.clusters.factory import build_layout
from harness.clusters.layout_reference import reference_layout
from harness.clusters.ports import PortAllocator, free_port
from harness.clusters.requests.probe import BrokerProbe
from harness.clusters.secured.access import MadeUpAccess
from tests.patience import run_command, wait_until
from workloads.hosts.keys import write_keys

KAFKA_WORDS = [word for word in BREAKAGES if word.startswith(KAFKA)]
WAIT_S = 120.0


class Strangers:
    """`start` returns when each broker sees all. Brokers are 1, 2, 3."""

    def __init__(
        self,
        directory: Path,
        *,
        engine: Literal["reference", "kafka"] = "reference",
        settings: Mapping[str, str] | None = None,
        proxied: bool = False,
        addresses: Mapping[int, str] | None = None,
        prefixes: Mapping[int, Sequence[str]] | None = None,
        security: ClusterSecurity | None = None,
    ) -> None:
        """`proxied`: each link leads to an address where a proxy of a fault host has to listen. `addresses` and
        `prefixes`: where each broker listens, and what starts a command on its host; without them all are here."""
        self.directory = directory
        directory.mkdir(parents=True)
        self._prefixes = prefixes or {}
        if addresses is None:
            key = ClusterKey(engine=engine, proxied=proxied, brokers=3, settings=tuple((settings or {}).items()))
            self._layout = build_layout(key, directory, PortAllocator())
        else:
            assert engine == "reference"
            self._layout = reference_layout(
                directory, brokers=3, settings={"harness.allow.remote": "true", **(settings or {})}, proxied=proxied,
                journal_appends=False, ports=PortAllocator(), cluster_id=new_cluster_id(),
                host_of=lambda broker: addresses[int(broker)],
                # Each broker's own loopback has the proxies of its links to the others.
                link_host_of=lambda kind, target: addresses[int(target)] if kind == "client" else "127.0.0.1",
            )  # fmt: skip
        self._access = None if security is None else self._secured(security)
        self.nodes = {int(node.broker_id): node for node in self._layout.nodes}
        self.bootstrap_servers = self._layout.bootstrap_servers
        self.direct_bootstrap_servers = self._layout.direct_bootstrap_servers
        self.word = "kafka.Kafka" if engine == "kafka" else "broker.node"
        self._seen: set[ProcessIdentity] = set()
        for broker, node in self.nodes.items():
            node.directory.mkdir(parents=True, exist_ok=True)
            for path, text in node.files.items():
                path.write_text(text)
            exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in node.environment.items())
            command = " ".join(map(shlex.quote, node.command))
            pid_file = self.pid_file(broker)
            self.script(broker).write_text(
                f"#!/bin/sh\n{exports}{command} >>{node.stderr_path} 2>&1 </dev/null &\n"
                f"echo $! >{pid_file}.new\nmv {pid_file}.new {pid_file}\n"
            )
            self.script(broker).chmod(0o755)

    def _secured(self, security: ClusterSecurity) -> MadeUpAccess:
        """All listeners speak TLS, and a broker's certificate holds for its proxies of clients too."""
        access = MadeUpAccess(self.directory, security)
        self._layout = access.applied(self._layout)
        assert access.authority is not None
        for node in self._layout.nodes:
            access.authority.issue(f"broker-{node.broker_id}", [node.direct.host, node.advertised.host])
        return access

    @property
    def client_config(self) -> Path:
        assert self._access is not None
        return self._access.directory / "load.properties"

    def script(self, broker: int) -> Path:
        return self.directory / f"start-{broker}.sh"

    def pid_file(self, broker: int) -> Path:
        return self.directory / f"broker-{broker}.pid"

    def start(self) -> None:
        for node in self.nodes.values():
            for command in node.prepare_commands:
                run_command(command, check=True)
        for broker in self.nodes:
            self.start_one(broker)
        wait_until(self.are_all_seen, f"three brokers in {self.directory}", seen=self._told, poll_s=0.05)

    def start_one(self, broker: int) -> None:
        command = [*self._prefixes.get(broker, ()), str(self.script(broker))]
        subprocess.run(command, check=True, timeout=WAIT_S, start_new_session=True)
        assert self.identity(broker) is not None

    def _told(self) -> object:
        paths = [node.stderr_path for node in self.nodes.values()]
        return [path.stat().st_size for path in paths if path.exists()]

    def are_all_seen(self) -> bool:
        for node in self.nodes.values():
            with BrokerProbe(node.direct) as probe:
                state = probe.metadata(None)
            if state is None or len(state.brokers) < len(self.nodes):
                return False
        return True

    def are_linked(self) -> bool:
        """Whoever has the proxies of these brokers listens at all of them, and the brokers see each other."""
        for link in self._layout.links:
            try:
                socket.create_connection((link.listen.host, link.listen.port), timeout=WAIT_S).close()
            except OSError:
                return False
        return self.are_all_seen()

    def identity(self, broker: int) -> ProcessIdentity | None:
        """None if it does not run."""
        found = read_identity(int(self.pid_file(broker).read_text()))
        if found is not None:
            self._seen.add(found)
        return found

    def state(self, broker: int) -> str | None:
        return read_state(int(self.pid_file(broker).read_text()))

    def are_well(self) -> bool:
        """All run and none is paused."""
        return all(self.identity(broker) is not None and self.state(broker) != "T" for broker in self.nodes)

    def kill_pid(self, pid: int) -> None:
        """A process of this test."""
        os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        for broker in self.nodes:
            if self.pid_file(broker).exists():
                self.identity(broker)
        for identity in self._seen:
            if is_alive(identity):
                os.kill(identity.pid, signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, self._seen)), "the strangers are gone")
        if self._access is not None:
            self._access.remove()

    def proxies(self, broker: int, allow: str, *, requests: bool = False) -> str:
        """On the host of each broker: the links to its peers, and that of the clients to it. `requests`: the proxies
        of clients may read Kafka's requests."""
        lines = ""
        for link in self._layout.links:
            if broker != (link.source or link.target):
                continue
            kind = "controller:" if link.kind == "controller" else ""
            more = f", {', '.join(KAFKA_WORDS)}], requests: true" if requests and link.source is None else "]"
            more += "" if self._access is None else ", tls: true"
            lines += (
                f"  {link.name}: {{listen: '{link.listen}', upstream: '{link.upstream}', "
                f"carries: ['{kind}{link.source or 'client'}->{link.target}'], allow: [{allow}{more}}}\n"
            )
        return f"proxies_outlive_worker: false\nproxies:\n{lines}" if lines else ""

    def permits(
        self,
        broker: int,
        *,
        allow: str = "kill, terminate, pause",
        lost_after: str = "10s",
        allow_links: str = "cut, stall, latency, bandwidth, black_hole, reset, byte_limit, slicing",
        requests: bool = False,
    ) -> str:
        node = self.nodes[broker]
        return self.proxies(broker, allow_links, requests=requests) + (
            f"lost_after: {lost_after}\nbrokers:\n  {broker}:\n"
            f"    process: {{pid_file: {self.pid_file(broker)}, command_has: {self.word}}}\n"
            f"    allow: [{allow}]\n    start: [{self.script(broker)}]\n"
            f"    log_dirs: [{node.storage.settings['log.dirs']}]\n"
        )


class FaultWorkers:
    """`harness worker --allow-faults` for each broker, called host-1 and so on. `close` ends them."""

    def __init__(
        self,
        directory: Path,
        strangers: Strangers,
        *,
        allow: str = "kill, terminate, pause",
        allow_links: str = "cut, stall, latency, bandwidth, black_hole, reset, byte_limit, slicing",
        lost_after: str = "10s",
        requests: bool = False,
        port: int = 0,
        through: int = 0,
        prefix: Sequence[str] = (),
        prefixes: Mapping[int, Sequence[str]] | None = None,
        master: str = "127.0.0.1",
        brokers: Sequence[int] = (1, 2, 3),
    ) -> None:
        """`port`: where the master listens, at the address `master`. `through`: the port that the workers connect to,
        if not that one. `prefix` and `prefixes`: what starts each worker, and that of one broker's host. `brokers`:
        whose hosts have a worker."""
        self.directory = directory
        self.keys = write_keys(directory / "keys")
        self.master_key, self._worker_key = self.keys
        self.port = port or free_port()
        self._through, self._master = through or self.port, master
        self._prefixes = prefixes or dict.fromkeys(strangers.nodes, prefix)
        for broker in brokers:
            path = self._permits(broker)
            path.write_text(
                strangers.permits(
                    broker, allow=allow, lost_after=lost_after, allow_links=allow_links, requests=requests
                )
            )
            path.chmod(0o600)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        for broker in brokers:
            self.start(broker)

    def _permits(self, broker: int) -> Path:
        return self.directory / f"permits-{broker}.yaml"

    def _environment(self, broker: int) -> dict[str, str]:
        return {**os.environ, "XDG_STATE_HOME": str(self.directory / f"state-{broker}")}

    @property
    def options(self) -> list[str]:
        """Of the master's command."""
        return [
            "--fault-hosts", str(len(self._processes)), "--fault-listen", f"{self._master}:{self.port}", "--load-key",
            str(self.master_key),
        ]  # fmt: skip

    def start(self, broker: int) -> None:
        with self.opened_log(broker) as log:
            self._processes[broker] = subprocess.Popen(
                [
                    *self._prefixes[broker], sys.executable, "-m", "harness", "worker", "--master",
                    f"{self._master}:{self._through}", "--key", str(self._worker_key), "--name",
                    f"host-{broker}", "--allow-faults", str(self._permits(broker)),
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment(broker), start_new_session=True,
            )  # fmt: skip

    def opened_log(self, broker: int) -> IO[bytes]:
        """Where what it says goes."""
        return self.log(broker).open("ab")

    def terminate(self, broker: int) -> int:
        """Its exit code."""
        self._processes[broker].send_signal(signal.SIGTERM)
        return self._processes[broker].wait(timeout=WAIT_S)

    def log(self, broker: int) -> Path:
        return self.directory / f"worker-{broker}.log"

    def kill(self, broker: int) -> None:
        """All of its processes at once. What it has started has a session of its own, and stays."""
        os.killpg(self._processes[broker].pid, signal.SIGKILL)
        self._processes[broker].wait(timeout=WAIT_S)

    def leases(self, broker: int) -> str:
        path = self.directory / f"state-{broker}" / "kafka-harness" / "fault-leases" / f"host-{broker}.json"
        return path.read_text() if path.exists() else ""

    def close(self) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            process.wait(timeout=WAIT_S)
