"""Free TCP ports for brokers and proxies, outside the range from which the kernel takes ports of outgoing connections.

A broker that is killed and restarted must find its port free. A port of the ephemeral range may have become the source
port of somebody's connection in between. So ports are taken below that range. Shown by
tests/harness/test_harness_layouts.py.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path

from harness.errors import EnvironmentFault

_LOWEST_PORT = 10_000
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_TRIES_PER_PORT = 200


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
    """Hands out distinct free ports of one host. The start is random, so that parallel runs rarely meet."""

    def __init__(self, host: str = "127.0.0.1", source: random.Random | None = None) -> None:
        self.host = host
        self._random = source or random.SystemRandom()
        self._taken: set[int] = set()

    def take(self) -> int:
        upper = ephemeral_range_start() - 1
        for _ in range(_TRIES_PER_PORT):
            port = self._random.randint(_LOWEST_PORT, upper)
            if port not in self._taken and is_free(self.host, port):
                self._taken.add(port)
                return port
        raise EnvironmentFault(
            f"no free port on {self.host} between {_LOWEST_PORT} and {upper} in {_TRIES_PER_PORT} tries"
        )
