"""A thousand proxies, and five hundred connections at once, through one server: samples for benchmarks/proxies.py.

One call makes the proxies. Each carries one round trip, and then they are deleted one by one. The memory of the
server's process is read while all of them exist. A crowd has one connection through each of the first five hundred
proxies, or through all. All are open before the first message, and each has one message of 64 bytes in flight at a
time.

A crowd is asked two questions. How many round trips a second does it get when each connection sends again at once? And
how long does a round trip take at a common rate, from the moment at which its message was due? The time of a round trip
of the first kind says nothing: all of them wait for the processors, so their mean follows from the throughput, and
the median only tells whom the server serves first. (Half of the original's are short, because a few connections are
served again and again while the others wait.)

For the first question both ends are in C (crowd_ends.c), one thread each. Ends in Python took more of the two cores
than a proxy, so that their own time decided. The processor time of the server for a round trip is told beside.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.compiled import compiled
from chaos.toxiproxy.lookup import RunningServer
from chaos.toxiproxy.states import ProxySpec

PROXIES: Final = 1_000
CROWDS: Final = (500, 1_000)  # connections
PACED_RATE: Final = 3_000  # round trips a second over all connections: a fifth of what two cores carry
PACED_S: Final = 4.0
SETTLING_TRIPS: Final = 10
LOOK_EVERY_S: Final = 30e-6
CONNECT_TIMEOUT_S: Final = 60.0
CROWD_TIMEOUT_S: Final = 120.0
_MESSAGE: Final = b"m" * 64
_FIRST: Final = b"E"  # A connection begins with it. The far end does not send it back.
Address = tuple[str, int]


@dataclass(slots=True, kw_only=True)
class _Member:
    """A connection of the crowd; `left_bytes` of the answer that it waits for."""

    connection: socket.socket
    left_bytes: int = 0
    due_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdEnds:
    """`far` sends back all but the first byte of each connection."""

    program: str
    far: Address

    def seconds(self, addresses: Sequence[Address], trips: int) -> float:
        """For `trips` round trips of a connection to each address. RuntimeError when they are not done in time, or an
        end closes."""
        ports = [str(port) for _, port in addresses]
        command = [self.program, "drive", str(len(_MESSAGE)), str(trips), *ports]
        done = subprocess.run(command, capture_output=True, text=True, timeout=CROWD_TIMEOUT_S + 10)
        if done.returncode != 0:
            raise RuntimeError(f"{len(ports)} connections: {done.stderr.strip() or f'exit code {done.returncode}'}")
        return float(done.stdout)


@contextlib.contextmanager
def crowd_ends(directory: Path) -> Iterator[CrowdEnds]:
    """EnvironmentFault without a C compiler."""
    program = compiled(Path(__file__).with_name("crowd_ends.c"), directory)
    process = subprocess.Popen([program, "echo"], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield CrowdEnds(program=program, far=("127.0.0.1", int(process.stdout.readline())))
    finally:
        process.kill()
        process.wait(10)


def through_many(server: RunningServer, ends: CrowdEnds, trips: int) -> list[tuple[str, float]]:
    """RuntimeError when bytes are missing or proxies stay."""
    upstream = ends.far
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
            with _connected(address) as connection:
                connection.sendall(_MESSAGE)
                if connection.recv(len(_MESSAGE), socket.MSG_WAITALL) != _MESSAGE:
                    raise RuntimeError(f"the proxy at {address} did not bring {len(_MESSAGE)} bytes back")
        each_s = time.perf_counter() - began_s
        resident = _resident_mb(server)
        crowd = [sample for size in CROWDS for sample in crowd_samples(addresses[:size], ends, trips, server)]
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


def crowd_samples(
    addresses: Sequence[Address], ends: CrowdEnds, trips: int, server: RunningServer | None = None
) -> list[tuple[str, float]]:
    """`trips` round trips on each connection, then a paced load. RuntimeError when they are not done in time, or an
    end closes."""
    label, count = f"{len(addresses):,} connections", len(addresses) * trips
    used_s = _cpu_s(server)
    took_s = ends.seconds(addresses, trips)
    now_s = _cpu_s(server)
    used = []
    if used_s is not None and now_s is not None:
        used = [(f"{label}: server's processor us a round trip", (now_s - used_s) / count * 1e6)]
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        crowd = [_Member(connection=stack.enter_context(_connected(address))) for address in addresses]
        _settle(crowd)
        for member in crowd:
            member.connection.setblocking(False)
            selector.register(member.connection, selectors.EVENT_READ, member)
        times_us = sorted(_paced_us(crowd, selector))
    return [
        (f"{label}: round trips/s", count / took_s),
        *used,
        (f"{label}, {PACED_RATE:,} round trips/s: p50 us", times_us[len(times_us) // 2]),
        (f"{label}, {PACED_RATE:,} round trips/s: p99 us", times_us[len(times_us) * 99 // 100]),
    ]


def _settle(crowd: Sequence[_Member]) -> None:
    """Some round trips of each: the server has made these connections, and ended those of the first question."""
    for _ in range(SETTLING_TRIPS):
        for member in crowd:
            member.connection.sendall(_MESSAGE)
        for member in crowd:
            if member.connection.recv(len(_MESSAGE), socket.MSG_WAITALL) != _MESSAGE:
                raise RuntimeError("a connection of the crowd was closed")


def _paced_us(crowd: Sequence[_Member], selector: selectors.BaseSelector) -> list[float]:
    """Microseconds of each round trip since its message was due. The connections take turns, evenly spaced. A message
    whose connection still waits for an answer is sent after it, and its time runs since it was due."""
    count, step_s = int(PACED_RATE * PACED_S), 1 / PACED_RATE
    late: dict[int, deque[float]] = {}  # The key is a connection that waits, the value when its next messages were due.
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


def _connected(address: Address) -> socket.socket:
    connection = socket.create_connection(address, timeout=CONNECT_TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(_FIRST)
    return connection


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


def _cpu_s(server: RunningServer | None) -> float | None:
    """User and system time so far. None for a server that is not ours."""
    if server is None or server.process is None:
        return None
    fields = Path(f"/proc/{server.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_mb(server: RunningServer) -> float | None:
    """None for a server that is not ours."""
    if server.process is None:
        return None
    for line in Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return None
