"""Free TCP ports for brokers and proxies, outside the range from which the kernel takes ports of outgoing connections.

A broker that is killed and restarted must find its port free. A port of the ephemeral range may have become the source
port of somebody's connection in between. So ports are taken below that range.

A port that was free may be taken by another run before our broker listens on it, or while our broker is down. So
whoever takes a port also claims it. The claim is an abstract Unix socket with the port in its name. The kernel gives
such a name to one process of a network namespace, as it does with ports, and takes it back when the process ends.
Nothing stays behind. Shown by tests/harness/test_harness_ports.py.
"""

from __future__ import annotations

import random
import socket
import weakref
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.errors import EnvironmentFault

_LOWEST_PORT = 10_000
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_TRIES = 400
_SINGLE_PORTS: Final = 64


def ephemeral_range_start() -> int:
    """First port of the kernel's range for outgoing connections (32768 unless told otherwise)."""
    try:
        first = int(_EPHEMERAL_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 32_768
    return first if first > _LOWEST_PORT + 2_000 else 32_768


def is_free(host: str, port: int) -> bool:
    """True if a listener could be opened there now. SO_REUSEADDR: a TIME_WAIT of a past connection does not count."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


class PortAllocator:
    """Hands out distinct free ports of one host. They stay claimed as long as this object lives. The start is random,
    so that parallel runs rarely meet."""

    def __init__(self, host: str = "127.0.0.1", source: random.Random | None = None) -> None:
        self.host = host
        self._random = source or random.SystemRandom()
        self._claims: list[socket.socket] = []
        weakref.finalize(self, _close_all, self._claims)

    def take(self) -> int:
        return self.take_row(1, [self.host])

    def take_row(self, length: int, hosts: Sequence[str]) -> int:
        """The first of `length` successive ports that are free on all hosts. It is a multiple of `length`."""
        upper = ephemeral_range_start() - length
        for _ in range(_TRIES):
            first = self._random.randrange(-(-_LOWEST_PORT // length) * length, upper + 1, length)
            row = range(first, first + length)
            if (claims := _claimed(row)) is None:
                continue
            if all(is_free(host, port) for host in hosts for port in row):
                self._claims += claims
                return first
            _close_all(claims)
        what = "no free port" if length == 1 else f"no {length} free ports in a row"
        raise EnvironmentFault(
            f"{what} on {', '.join(hosts)} between {_LOWEST_PORT} and {upper + length - 1} in {_TRIES} tries"
        )


def free_port() -> int:
    """One port for a server that is started at once. It stays claimed until 64 more have been taken in this way."""
    allocator = PortAllocator("127.0.0.1")
    _single.append(allocator)
    return allocator.take()


_single: deque[PortAllocator] = deque(maxlen=_SINGLE_PORTS)


def _claimed(row: range) -> list[socket.socket] | None:
    """None if one of the ports is claimed, by this process or another."""
    claims: list[socket.socket] = []
    for port in row:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        claims.append(claim)
        try:
            claim.bind(f"\0kafka-harness-port-{port}")
        except OSError:
            _close_all(claims)
            return None
    return claims


def _close_all(claims: list[socket.socket]) -> None:
    for claim in claims:
        claim.close()
    claims.clear()
