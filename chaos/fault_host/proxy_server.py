"""The Toxiproxy server of a fault host. A worker starts it once, and the next start of the worker finds it again.

Links between brokers go through its proxies, so it must not end with the worker. A file says which process it is. Only
the worker uses this server, so proxies that are not on the operator's list are removed. Shown by
tests/chaos/test_chaos_fault_host_proxies.py.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from chaos.fault_host.processes import send_signal, wait_gone
from chaos.fault_host.proxy_permits import ProxyPermit
from chaos.lease_file import LeaseProblem, own_directory, read_own_file
from chaos.process_identity import ProcessIdentity, is_alive, read_identity
from chaos.toxiproxy.calls import NotFound, ToxiproxyError
from chaos.toxiproxy.client import ToxiproxyClient
from chaos.toxiproxy.lookup import RunningServer, ServerUnavailable, start_embedded, start_real, use_server
from chaos.toxiproxy.states import ProxySpec
from runlog.files.documents import write_json

FORMAT: Final = 1
STOP_S: Final = 10.0


class ProxyServerError(Exception):
    """The proxies of this host cannot run. The message is for the operator."""


class ProxyServer:
    """`binary` is the original Toxiproxy server, if it is installed here. None: the embedded server is used. `name` is
    the worker's name. `wire_log`: the file into which the embedded server writes which requests it saw."""

    def __init__(
        self,
        permits: Mapping[str, ProxyPermit],
        root: Path,
        name: str,
        *,
        binary: Path | None,
        wire_log: Path | None = None,
    ) -> None:
        assert binary is None or wire_log is None, "the original server knows no requests"
        self._permits, self._binary, self._wire_log = permits, binary, wire_log
        self._log = root / f"{name}.proxies.log"
        self._path = root / f"{name}.proxies.json"
        self._process: subprocess.Popen[bytes] | None = None  # None: an earlier worker has started it
        self._identity: ProcessIdentity | None = None
        self._client: ToxiproxyClient | None = None
        self.label = ""

    @property
    def client(self) -> ToxiproxyClient:
        assert self._client is not None, "open() comes first"
        return self._client

    @property
    def pid(self) -> int:
        return 0 if self._identity is None else self._identity.pid

    def is_alive(self) -> bool:
        if self._process is not None:
            self._process.poll()  # otherwise a server that has ended stays as a zombie
        return self._identity is not None and is_alive(self._identity)

    def open(self) -> None:
        """Find or start the server. Afterwards it has exactly the proxies of the list, and none is broken. Raises
        ProxyServerError."""
        try:
            own_directory(self._path.parent)
            server = self._found() or self._started()
            self.label = server.label
            if self._client is not None:
                self._client.close()
            self._client = server.client()
            self._set_up(self._client)
        except (OSError, LeaseProblem, ServerUnavailable, ToxiproxyError) as error:
            raise ProxyServerError(f"the proxies of this host could not be set up: {error}") from error

    def end_left(self) -> None:
        """End the server that an earlier worker of this name has left, if it runs: its list has no proxy for it any
        more, and their addresses may be needed."""
        try:
            own_directory(self._path.parent)
            self._found()
        except (OSError, LeaseProblem, ServerUnavailable) as error:
            raise ProxyServerError(f"the proxies of this host could not be set up: {error}") from error
        self.close(ends=True)

    def mend_all(self) -> None:
        """Mend all proxies. Raises ToxiproxyError."""
        for name in self._permits:
            mend(self.client, name)

    def close(self, *, ends: bool) -> None:
        """`ends`: end the server too, and every link with it."""
        if self._client is not None:
            self._client.close()
        if ends and self._identity is not None:
            send_signal(self._identity, signal.SIGTERM)
            if not self._is_gone_within(self._identity, STOP_S):
                send_signal(self._identity, signal.SIGKILL)
                self._is_gone_within(self._identity, STOP_S)
            self._path.unlink(missing_ok=True)

    def _is_gone_within(self, identity: ProcessIdentity, timeout_s: float) -> bool:
        if self._process is None:
            return wait_gone(identity, timeout_s)
        try:
            self._process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _found(self) -> RunningServer | None:
        """The server that an earlier worker of this name has left. None if it does not run any more."""
        try:
            document = json.loads(read_own_file(self._path))
            url, pid, ticks = document["url"], document["pid"], document["start_ticks"]
            if document["format"] != FORMAT or not isinstance(url, str) or type(pid) is not int:
                raise ValueError("it is written by another version")
            identity = ProcessIdentity(pid=pid, start_ticks=int(ticks))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ProxyServerError(
                f"{self._path} cannot be read ({error}): end the proxy server of this host, then remove the file"
            ) from error
        if not is_alive(identity):
            return None
        self._identity = identity
        return use_server(url)

    def _started(self) -> RunningServer:
        if self._binary is not None:
            server = start_real(self._binary, log_path=self._log)
        else:
            server = start_embedded(log_path=self._log, wire_log=self._wire_log)
        assert server.process is not None
        self._process = server.process
        self._identity = read_identity(server.process.pid)
        if self._identity is None:
            raise ServerUnavailable(f"it ended at once, see {self._log}")
        try:
            write_json(
                self._path,
                {
                    "format": FORMAT, "url": server.url, "pid": self._identity.pid,
                    "start_ticks": self._identity.start_ticks,
                },
            )  # fmt: skip
        except OSError:
            server.stop()  # otherwise the next start could not find it
            raise
        return server

    def _set_up(self, client: ToxiproxyClient) -> None:
        for name in client.proxies():
            if name not in self._permits:
                client.delete(name)
        client.populate(
            [
                ProxySpec(name=name, listen=permit.listen, upstream=permit.upstream)
                for name, permit in self._permits.items()
            ]
        )
        self.mend_all()


def mend(client: ToxiproxyClient, name: str) -> None:
    """Remove all toxics and enable the proxy. The last toxic is removed first, because otherwise Toxiproxy 2.12.0 can
    panic (see ToxiproxyClient.retire_toxic)."""
    for toxic in reversed(client.proxy(name).toxics):
        try:
            client.remove_toxic(name, toxic.name)
        except NotFound:
            continue
    if not client.proxy(name).is_enabled:
        client.enable(name)
