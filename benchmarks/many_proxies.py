"""A thousand proxies, and five hundred connections at once, through one server: samples for benchmarks/proxies.py.

One call makes the proxies. Each carries one round trip, and then they are deleted one by one. The memory of the
server's process is read while all of them exist. The crowd has one connection through each of the first five hundred
proxies. All are open before the first message, and each has one message of 64 bytes in flight at a time. One thread of
this process serves them all by epoll.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaos.toxiproxy.lookup import RunningServer
from chaos.toxiproxy.states import ProxySpec

PROXIES: Final = 1_000
CONNECTIONS: Final = 500
CONNECT_TIMEOUT_S: Final = 60.0
CROWD_TIMEOUT_S: Final = 120.0
_MESSAGE: Final = b"m" * 64
Address = tuple[str, int]


@dataclass(slots=True, kw_only=True)
class _Member:
    """A connection of the crowd; `left_bytes` of the answer that it waits for."""

    connection: socket.socket
    left_bytes: int = 0
    asked_ns: int = 0
    trips: int = 0


def through_many(server: RunningServer, upstream: Address, kind: bytes, trips: int) -> list[tuple[str, float]]:
    """`kind`: the byte that makes the far end echo. RuntimeError when bytes are missing or proxies stay."""
    client = server.client()
    try:
        began_s = time.perf_counter()
        made = client.populate(
            [ProxySpec(name=f"many-{number}", upstream=f"{upstream[0]}:{upstream[1]}") for number in range(PROXIES)]
        )
        made_s = time.perf_counter() - began_s
        addresses = [_address(state.listen) for state in made.values()]
        began_s = time.perf_counter()
        for address in addresses:
            with _connected(address, kind) as connection:
                connection.sendall(_MESSAGE)
                if connection.recv(len(_MESSAGE), socket.MSG_WAITALL) != _MESSAGE:
                    raise RuntimeError(f"the proxy at {address} did not bring {len(_MESSAGE)} bytes back")
        each_s = time.perf_counter() - began_s
        resident = _resident_mb(server)
        crowd = crowd_samples(addresses[:CONNECTIONS], kind, trips)
        began_s = time.perf_counter()
        for name in made:
            client.call("DELETE", f"/proxies/{name}")
        deleted_s = time.perf_counter() - began_s
        if left := [name for name in client.proxies() if name.startswith("many-")]:
            raise RuntimeError(f"{len(left)} of {PROXIES} proxies stayed")
    finally:
        client.close()
    return [
        *crowd,
        (f"{PROXIES:,} proxies made, s", made_s),
        (f"a round trip through each of {PROXIES:,}, s", each_s),
        (f"{PROXIES:,} proxies deleted, s", deleted_s),
        *([] if resident is None else [(f"resident MB with {PROXIES:,} proxies", resident)]),
    ]


def crowd_samples(addresses: Sequence[Address], kind: bytes, trips: int) -> list[tuple[str, float]]:
    """`trips` round trips on each connection. RuntimeError when they are not done in time, or an end closes."""
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        crowd = [_Member(connection=stack.enter_context(_connected(address, kind))) for address in addresses]
        for member in crowd:
            member.connection.setblocking(False)
            selector.register(member.connection, selectors.EVENT_READ, member)
        times_us: list[float] = []
        began_s = time.perf_counter()
        for member in crowd:
            _ask(member)
        running = len(crowd)
        while running:
            if time.perf_counter() - began_s > CROWD_TIMEOUT_S:
                raise RuntimeError(f"{running} of {len(crowd)} connections were not done after {CROWD_TIMEOUT_S} s")
            for key, _ in selector.select(1.0):
                running -= _is_done(key.data, times_us, trips)
        took_s = time.perf_counter() - began_s
    times_us.sort()
    label = f"{len(addresses)} connections: round trip"
    return [
        (f"{label}s/s", len(times_us) / took_s),
        (f"{label} p50 us", times_us[len(times_us) // 2]),
        (f"{label} p99 us", times_us[len(times_us) * 99 // 100]),
    ]


def _ask(member: _Member) -> None:
    member.left_bytes, member.asked_ns = len(_MESSAGE), time.perf_counter_ns()
    member.connection.sendall(_MESSAGE)  # fits: there is never more than one on its way


def _is_done(member: _Member, times_us: list[float], trips: int) -> bool:
    received = len(member.connection.recv(member.left_bytes))
    if not received:
        raise RuntimeError("a connection of the crowd was closed")
    member.left_bytes -= received
    if member.left_bytes:
        return False
    times_us.append((time.perf_counter_ns() - member.asked_ns) / 1000)
    member.trips += 1
    if member.trips == trips:
        return True
    _ask(member)
    return False


def _connected(address: Address, kind: bytes) -> socket.socket:
    connection = socket.create_connection(address, timeout=CONNECT_TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(kind)
    return connection


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


def _resident_mb(server: RunningServer) -> float | None:
    """None for a server that is not ours."""
    if server.process is None:
        return None
    for line in Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return None
