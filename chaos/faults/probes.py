"""Evidence gathered over a link itself: is it refused, and how long does an ApiVersions round trip take?"""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass

_API_VERSIONS, _VERSION, _CORRELATION_ID = 18, 0, 1
_CLIENT_ID = b"link-probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProbe:
    """`outcome`: answered, refused, closed or silent."""

    outcome: str
    elapsed_us: int


def probe_link(listen: str, *, timeout_ms: int) -> LinkProbe:
    """One ApiVersions request through the proxy at `listen`, on a connection of its own."""
    host, _, port = listen.rpartition(":")
    body = struct.pack(
        f">hhih{len(_CLIENT_ID)}s", _API_VERSIONS, _VERSION, _CORRELATION_ID, len(_CLIENT_ID), _CLIENT_ID
    )
    start_ns = time.monotonic_ns()
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_ms / 1000) as connection:
            start_ns = time.monotonic_ns()
            connection.sendall(struct.pack(">i", len(body)) + body)
            outcome = "answered" if connection.recv(4) else "closed"
    except ConnectionRefusedError:
        outcome = "refused"
    except TimeoutError:
        outcome = "silent"
    except OSError:
        outcome = "closed"
    return LinkProbe(outcome=outcome, elapsed_us=(time.monotonic_ns() - start_ns) // 1000)
