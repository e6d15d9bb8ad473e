"""Finds or starts a Toxiproxy server: one that is given by URL, or the original or embedded server as a child process.

A child gets a free port, a lease entry, and a time limit until it answers. It has a session of its own, so that Ctrl-C
reaches only us and we can heal before it ends.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.lease import Lease
from chaos.toxiproxy.calls import ToxiproxyError
from chaos.toxiproxy.client import ToxiproxyClient
from chaos.toxiproxy.listening import may_listen

BINARY_NAME = "toxiproxy-server"
READY_TIMEOUT_MS = 30_000  # half a second on an idle machine
STOP_TIMEOUT_MS = 3_000
START_ATTEMPTS = 3  # another process may take the free port before the server does

# Starts a command with these variables added to the environment. stdout and stderr go to the file.
Starter = Callable[[Sequence[str], Mapping[str, str], Path | None], "subprocess.Popen[bytes]"]


class ServerUnavailable(Exception):
    """No server answers. The text says which one was tried and why it failed."""


@dataclass(slots=True, kw_only=True)
class RunningServer:
    """A server and how to reach it. `stop` ends it only if we have started it."""

    url: str
    version: str
    is_embedded: bool
    process: subprocess.Popen[bytes] | None = None
    lease: Lease | None = None
    lease_entry_id: str | None = None

    @property
    def label(self) -> str:
        """What reports call it: "toxiproxy 2.12.0" or "embedded toxiproxy"."""
        return "embedded toxiproxy" if self.is_embedded else f"toxiproxy {self.version}"

    def client(self) -> ToxiproxyClient:
        return ToxiproxyClient(self.url)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(STOP_TIMEOUT_MS / 1000)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(STOP_TIMEOUT_MS / 1000)
            self.process = None
        if self.lease and self.lease_entry_id:
            self.lease.remove(self.lease_entry_id)


def find_binary(explicit: str | None = None, search_directories: Sequence[Path] = ()) -> Path | None:
    """The original server. `explicit` must exist if it is given. Otherwise PATH is searched, then the directories."""
    if explicit:
        path = Path(explicit)
        if not os.access(path, os.X_OK):
            raise ServerUnavailable(f"Toxiproxy server {path} is not an executable file")
        return path
    on_path = shutil.which(BINARY_NAME)
    if on_path:
        return Path(on_path)
    candidates = [directory / BINARY_NAME for directory in search_directories]
    return next((path for path in candidates if os.access(path, os.X_OK)), None)


def binary_version(binary: Path) -> str:
    """The version in the build information that Go puts into the binary. It is used for a server that was built with
    `go install`, because that one answers "git"."""
    found = re.search(rb"github\.com/Shopify/toxiproxy/v2\tv([0-9][0-9A-Za-z.+-]*)", binary.read_bytes())
    return found[1].decode() if found else "git"


def use_server(url: str) -> RunningServer:
    """A server that somebody else runs."""
    client = ToxiproxyClient(url)
    try:
        version = client.version()
    except ToxiproxyError as error:
        raise ServerUnavailable(f"no Toxiproxy server at {url}: {error}") from error
    finally:
        client.close()
    return RunningServer(url=url, version=version, is_embedded=version.endswith("+embedded"))


def start_real(
    binary: Path,
    *,
    lease: Lease | None = None,
    log_path: Path | None = None,
    starter: Starter | None = None,
    options: Sequence[str] = (),
) -> RunningServer:
    """Start the original server. `options` are added to its command line."""
    server = _start(
        lambda port: [str(binary), "-host", "127.0.0.1", "-port", str(port), *options],
        label="Toxiproxy server",
        is_embedded=False,
        lease=lease,
        log_path=log_path,
        starter=starter,
    )
    if server.version == "git":
        server.version = binary_version(binary)
    return server


def start_embedded(
    *,
    wire_log: Path | None = None,
    exchange_log: Path | None = None,
    lease: Lease | None = None,
    log_path: Path | None = None,
    seed: int | None = None,
    starter: Starter | None = None,
    is_strict: bool = True,
    options: Sequence[str] = (),
) -> RunningServer:
    """Start the embedded server. `starter` starts the process. Without it, it is a child in a session of its own that
    outlives this process. Without `is_strict` it accepts what the original accepts. `options` are added to its command
    line."""
    extra = (["--wire-log", str(wire_log)] if wire_log else []) + (["--seed", str(seed)] if seed is not None else [])
    extra += ["--exchange-log", str(exchange_log)] if exchange_log else []
    extra += [*(["--strict"] if is_strict else []), *options]
    module = [sys.executable, "-m", "chaos.toxiproxy.server", "--host", "127.0.0.1", "--port"]
    return _start(
        lambda port: [*module, str(port), *extra],
        label="embedded Toxiproxy server",
        is_embedded=True,
        lease=lease,
        log_path=log_path,
        starter=starter,
    )


def _start(
    command: Callable[[int], list[str]],
    *,
    label: str,
    is_embedded: bool,
    lease: Lease | None,
    log_path: Path | None,
    starter: Starter | None,
) -> RunningServer:
    """`command` makes the command line for a port."""
    failure = ""
    for _ in range(START_ATTEMPTS):
        port = _free_port()
        reservation = lease.reserve_process(label) if lease else None
        try:
            process = (starter or _spawn)(
                command(port), _environment(reservation.environment if reservation else {}), log_path
            )
        except OSError as error:
            raise ServerUnavailable(f"cannot start {label}: {error}") from error
        server = RunningServer(
            url=f"http://127.0.0.1:{port}",
            version="",
            is_embedded=is_embedded,
            process=process,
            lease=lease,
            lease_entry_id=reservation.entry_id if reservation else None,
        )
        if lease and reservation:
            try:
                lease.record_process(reservation.entry_id, process.pid)
            except OSError as error:  # The disk may be full. Without a lease the server may not run.
                server.stop()
                raise ServerUnavailable(f"cannot write down that {label} runs: {error}") from error
        failure = _wait_ready(server, label, port)
        if not failure:
            return server
        server.stop()
    raise ServerUnavailable(failure)


def _environment(lease: Mapping[str, str]) -> dict[str, str]:
    """The variables that are added to our own environment. With them the embedded server is found from any working
    directory."""
    search_path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]))
    return {"LOG_LEVEL": "error", "PYTHONPATH": search_path, **lease}


def _spawn(command: Sequence[str], environment: Mapping[str, str], log_path: Path | None) -> subprocess.Popen[bytes]:
    log = log_path.open("ab") if log_path else subprocess.DEVNULL
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, **environment},
        )
    finally:
        if not isinstance(log, int):
            log.close()


def _wait_ready(server: RunningServer, label: str, port: int) -> str:
    """Wait for an answer of this server itself and set the version. Returns an empty text, or why there was none."""
    assert server.process is not None
    client = server.client()
    deadline = time.monotonic() + READY_TIMEOUT_MS / 1000
    try:
        while time.monotonic() < deadline:
            if server.process.poll() is not None:
                return f"{label} ended with exit {server.process.returncode} before it answered"
            try:
                version = client.version()
            except ToxiproxyError:
                time.sleep(0.02)
                continue
            if may_listen(server.process.pid, port):
                server.version = version
                return ""
            time.sleep(0.02)  # somebody else's server has the port, so ours is about to end
        return f"{label} did not answer at {server.url} within {READY_TIMEOUT_MS} ms"
    finally:
        client.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
