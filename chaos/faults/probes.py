"""Probes over a link: whether it refuses connections, and how long a round trip or a load of known size takes."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from broker.door.addresses import parse_address
from chaos.faults.probe_login import log_in
from chaos.link_probe import LinkProbe, LoadProbe
from chaos.ports.links import LinkProber, Links
from chaos.ports.security import OPEN, ProbeAccess

_API_VERSIONS, _VERSION, _CORRELATION_ID = 18, 0, 1
_CLIENT_ID = b"link-probe"
_CLIENT_ID_BYTES_MAX = 30_000  # its length field is an int16
_TRIES: Final = 3
_TRIES_MAX: Final = 12  # over a link that is slow by itself; they take a third of a second at 30 ms each
_TRIED_MAX_US: Final = 1_000_000  # no moment of slowness is longer
_SLOW_US: Final = 5_000  # over loopback a probe takes one millisecond


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Where a probe connects. Over TLS it checks no certificate. So it logs in only to clusters of ours, whose
    passwords were made for the run. It sends nothing else that is secret."""

    address: str
    access: ProbeAccess = OPEN
    prober: LinkProber | None = None  # if set, the probe runs on the host of the proxy and not here

    def opened(self, *, timeout_ms: int) -> socket.socket:
        """A connection after the handshake of TLS and the login by SASL. Raises OSError (ssl.SSLError is one)."""
        connection = socket.create_connection(parse_address(self.address), timeout=timeout_ms / 1000)
        try:
            connection = self._over_tls(connection)
            if self.access.credentials is not None:
                log_in(connection, self.access.credentials)
        except BaseException:
            connection.close()
            raise
        return connection

    def _over_tls(self, connection: socket.socket) -> socket.socket:
        if not self.access.is_tls:
            return connection
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if self.access.certificate_file:
            context.load_cert_chain(self.access.certificate_file)
        return context.wrap_socket(connection)


def door_of(links: Links, link: str) -> Door:
    """The door at the link's proxy on which Toxiproxy's own toxics act."""
    prober = links.prober(link)
    if prober is not None:
        return Door(address=link, prober=prober)
    client, proxy = links.plain(link)
    return Door(address=client.proxy(proxy).listen, access=links.probe_access(link))


def probe_link(door: Door, *, timeout_ms: int) -> LinkProbe:
    """Send one ApiVersions request through the proxy, on a new connection. The time is that of the round trip."""
    if door.prober is not None:
        return door.prober.probe_link(timeout_ms=timeout_ms)
    start_ns = time.monotonic_ns()
    try:
        with door.opened(timeout_ms=timeout_ms) as connection:
            start_ns = time.monotonic_ns()
            connection.sendall(_request(_CLIENT_ID))
            outcome = "answered" if connection.recv(4) else "closed"
    except OSError as error:
        outcome = _outcome_of(error)
    return LinkProbe(outcome=outcome, elapsed_us=(time.monotonic_ns() - start_ns) // 1000)


def hold_link(door: Door, *, timeout_ms: int) -> tuple[str, socket.socket | None]:
    """Like `probe_link`, but after an answer the connection stays open and belongs to the caller."""
    try:
        connection = door.opened(timeout_ms=timeout_ms)
    except OSError as error:
        return _outcome_of(error), None
    try:
        connection.sendall(_request(_CLIENT_ID))
        if connection.recv(4):
            return "answered", connection
        outcome = "closed"
    except OSError as error:
        outcome = _outcome_of(error)
    connection.close()
    return outcome, None


def probe_connect(address: str, *, timeout_ms: int) -> LinkProbe:
    """Make one connect() and nothing else. The outcome is `answered` if it succeeded."""
    start_ns = time.monotonic_ns()
    try:
        socket.create_connection(parse_address(address), timeout=timeout_ms / 1000).close()
        outcome = "answered"
    except OSError as error:
        outcome = _outcome_of(error)
    return LinkProbe(outcome=outcome, elapsed_us=(time.monotonic_ns() - start_ns) // 1000)


def probe_load(door: Door, *, stream: str, size_bytes: int, timeout_ms: int) -> LoadProbe:
    """Send about `size_bytes` over one stream: requests with long client ids upstream, or as many answers as needed
    downstream."""
    if door.prober is not None:
        return door.prober.probe_load(stream=stream, size_bytes=size_bytes, timeout_ms=timeout_ms)
    start_ns = time.monotonic_ns()
    passed = 0
    try:
        with door.opened(timeout_ms=timeout_ms) as connection:
            start_ns = time.monotonic_ns()
            deadline_ns = start_ns + timeout_ms * 1_000_000
            if stream == "upstream":
                for _ in range(max(1, -(-size_bytes // _CLIENT_ID_BYTES_MAX))):
                    frame = _request(b"p" * min(_CLIENT_ID_BYTES_MAX, max(1, size_bytes)))
                    connection.sendall(frame)
                    passed += len(frame)
                    _read_answer(connection)
            while stream != "upstream" and passed < size_bytes:
                connection.sendall(_request(_CLIENT_ID))
                passed += _read_answer(connection)
                if time.monotonic_ns() > deadline_ns:
                    raise TimeoutError
        outcome = "answered"
    except OSError as error:
        outcome = _outcome_of(error)
    return LoadProbe(outcome=outcome, size_bytes=passed, elapsed_us=(time.monotonic_ns() - start_ns) // 1000)


def _outcome_of(error: OSError) -> str:
    names = {ConnectionRefusedError: "refused", ConnectionResetError: "reset", TimeoutError: "silent"}
    return next((name for kind, name in names.items() if isinstance(error, kind)), "closed")


def _request(client_id: bytes) -> bytes:
    body = struct.pack(f">hhih{len(client_id)}s", _API_VERSIONS, _VERSION, _CORRELATION_ID, len(client_id), client_id)
    return struct.pack(">i", len(body)) + body


def _read_answer(connection: socket.socket) -> int:
    """Read one whole answer and return its size. Raises ConnectionError if the connection ends first."""
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        more = connection.recv(65536)
        if not more:
            raise ConnectionError("closed before the answer")
        data += more
    return len(data)


AProbe = TypeVar("AProbe", LinkProbe, LoadProbe)


class Before:
    """The time of a probe over each link before the fault was injected. It is the quickest of three probes, and of more
    for a second if all were slow: a broker that was just let run again answers late for a moment, and what is compared
    with that would prove nothing."""

    def __init__(self) -> None:
        self._us: dict[str, int] = {}

    def take(self, links: Iterable[str], probe: Callable[[str], LinkProbe | LoadProbe]) -> None:
        for link in links:
            taken_us = 0
            for tried in range(1, _TRIES_MAX + 1):
                found = probe(link)
                taken_us += found.elapsed_us
                if found.outcome != "answered":  # broken already, so there is nothing to compare with
                    break
                quickest_us = self._us[link] = min(found.elapsed_us, self._us.get(link, found.elapsed_us))
                if tried >= _TRIES and (quickest_us < _SLOW_US or taken_us > _TRIED_MAX_US):
                    break

    def __getitem__(self, link: str) -> int:
        """The time in us. 0 if it is unknown."""
        return self._us.get(link, 0)


def quickest(probe: Callable[[], AProbe], is_slow: Callable[[AProbe], bool]) -> AProbe:
    """The quickest of three probes, or the first one that is not slow, because that one decides. On a busy host a probe
    may be slow without any fault. It is much less likely that three in a row are."""
    found = []
    for _ in range(_TRIES):
        found.append(probe())
        if not is_slow(found[-1]):
            return found[-1]
    return min(found, key=lambda each: each.elapsed_us)
