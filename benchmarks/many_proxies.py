"""A thousand proxies, and five hundred connections at once, through one server: samples for benchmarks/proxies.py.

One call makes the proxies. Each carries one round trip, and then they are deleted one by one. The memory of the
server's process is read while all of them exist. A crowd has one connection through each of the first five hundred
proxies, or through all. All are open before the first message, and each has one message of 64 bytes in flight at a
time. One thread of this process serves them all by epoll.

A crowd is asked two questions. How many round trips a second does it get when each connection sends again at once? And
how long does a round trip take at a common rate, from the moment at which its message was due? The time of a round trip
of the first kind says nothing: all of them wait for the processors, so their mean follows from the throughput, and
the median only tells whom the server serves first. (Half of the original's are short, because a few connections are
served again and again while the others wait.)
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaos.toxiproxy.lookup import RunningServer
from chaos.toxiproxy.states import ProxySpec

PROXIES: Final = 1_000
CROWDS: Final = (500, 1_000)  # connections
PACED_RATE: Final = 3_000  # round trips a second over all connections: a fifth of what two cores carry
PACED_S: Final = 4.0
LOOK_EVERY_S: Final = 30e-6
CONNECT_TIMEOUT_S: Final = 60.0
CROWD_TIMEOUT_S: Final = 120.0
_MESSAGE: Final = b"m" * 64
Address = tuple[str, int]


@dataclass(slots=True, kw_only=True)
class _Member:
    """A connection of the crowd; `left_bytes` of the answer that it waits for."""

    connection: socket.socket
    left_bytes: int = 0
    due_s: float = 0.0
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
        crowd = [sample for size in CROWDS for sample in crowd_samples(addresses[:size], kind, trips)]
        began_s = time.perf_counter()
        for name in made:
            client.delete(name)
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
    """`trips` round trips on each connection, then a paced load. RuntimeError when they are not done in time, or an
    end closes."""
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        crowd = [_Member(connection=stack.enter_context(_connected(address, kind))) for address in addresses]
        for member in crowd:
            member.connection.setblocking(False)
            selector.register(member.connection, selectors.EVENT_READ, member)
        took_s = _at_full_speed(crowd, selector, trips)
        times_us = sorted(_paced_us(crowd, selector))
    label = f"{len(addresses):,} connections"
    return [
        (f"{label}: round trips/s", len(crowd) * trips / took_s),
        (f"{label}, {PACED_RATE:,} round trips/s: p50 us", times_us[len(times_us) // 2]),
        (f"{label}, {PACED_RATE:,} round trips/s: p99 us", times_us[len(times_us) * 99 // 100]),
    ]


def _at_full_speed(crowd: Sequence[_Member], selector: selectors.BaseSelector, trips: int) -> float:
    """Seconds for `trips` round trips of each."""
    began_s = time.perf_counter()
    for member in crowd:
        _ask(member)
    running = len(crowd)
    while running:
        _check_time(began_s, running, len(crowd))
        for key, _ in selector.select(1.0):
            member = key.data
            if _is_answered(member):
                member.trips += 1
                if member.trips == trips:
                    running -= 1
                else:
                    _ask(member)
    return time.perf_counter() - began_s


def _paced_us(crowd: Sequence[_Member], selector: selectors.BaseSelector) -> list[float]:
    """Microseconds of each round trip since its message was due. The connections take turns, evenly spaced. A message
    whose connection still waits for an answer is sent after it, and its time runs since it was due."""
    count, step_s = int(PACED_RATE * PACED_S), 1 / PACED_RATE
    late: dict[int, deque[float]] = {}  # of a connection that waits: when its next messages were due
    times_us: list[float] = []
    began_s, sent = time.perf_counter(), 0
    while len(times_us) < count:
        _check_time(began_s, count - len(times_us), count)
        now_s = time.perf_counter()
        while sent < count and (due_s := began_s + sent * step_s) <= now_s:
            member = crowd[sent % len(crowd)]
            sent += 1
            if member.left_bytes:
                late.setdefault(id(member), deque()).append(due_s)
            else:
                _ask(member, due_s)
        ready = selector.select(0)
        if not ready:  # not a longer select: its time has steps of a millisecond
            time.sleep(LOOK_EVERY_S)
        for key, _ in ready:
            member = key.data
            if _is_answered(member):
                times_us.append((time.perf_counter() - member.due_s) * 1e6)
                if waiting := late.get(id(member)):
                    _ask(member, waiting.popleft())
    return times_us


def _check_time(began_s: float, left: int, count: int) -> None:
    if time.perf_counter() - began_s > CROWD_TIMEOUT_S:
        raise RuntimeError(f"{left} of {count} were not done after {CROWD_TIMEOUT_S} s")


def _ask(member: _Member, due_s: float = 0.0) -> None:
    member.left_bytes, member.due_s = len(_MESSAGE), due_s
    member.connection.sendall(_MESSAGE)  # fits: there is never more than one on its way


def _is_answered(member: _Member) -> bool:
    received = len(member.connection.recv(member.left_bytes))
    if not received:
        raise RuntimeError("a connection of the crowd was closed")
    member.left_bytes -= received
    return not member.left_bytes


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
