"""The address that a proxy listens on. Like the original, it accepts any text and interprets it like Go's `net`.

`resolve` gives the address as the original shows and compares it: `localhost:8474` and `127.0.0.1:8474` are the same.
The texts of its errors are Go's. Shown by tests/chaos/test_chaos_toxiproxy_differential.py and
tests/chaos/test_chaos_toxiproxy_go.py.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import Final

from broker.door.addresses import PORT_MAX, format_address

LOOKUP_TIMEOUT_MS: Final = 5_000
_PORT_NUMBER: Final = re.compile(r"[+-]?[0-9]+")


class ListenAddressError(ValueError):
    """The address cannot be used. The text is Go's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddress:
    """`host` is an IP address. Empty: all addresses of this machine."""

    host: str
    port: int

    def __str__(self) -> str:
        return format_address(self.host, self.port)


async def resolve(text: str) -> ListenAddress:
    """Resolve the text. An IPv4 address is preferred. Raises ListenAddressError."""
    host, service = split(text)
    port = _port(service)
    if not host or _is_ipv4(host):
        return ListenAddress(host=host, port=port)
    try:
        async with asyncio.timeout(LOOKUP_TIMEOUT_MS / 1000):
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # TimeoutError is an OSError
        raise ListenAddressError(f"lookup {host}: no such host") from error
    *_, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    return ListenAddress(host=str(address[0]), port=port)


def _is_ipv4(host: str) -> bool:
    """Whether this is an IPv4 address in its usual form, which a look-up would only return as it is."""
    try:
        socket.inet_pton(socket.AF_INET, host)
    except (OSError, UnicodeError, ValueError):
        return False
    return True


def split(text: str) -> tuple[str, str]:
    """The host without brackets, and the port. Raises ListenAddressError."""

    def wrong(why: str) -> ListenAddressError:
        return ListenAddressError(f"address {text}: {why}")

    if not text:
        return "", ""
    host, colon, service = text.rpartition(":")
    if not colon:
        raise wrong("missing port in address")
    after = 0  # where brackets are not expected any more
    if text.startswith("["):
        end = text.find("]")
        if end < 0:
            raise wrong("missing ']' in address")
        if end + 1 == len(text):
            raise wrong("missing port in address")
        if end + 1 != len(host):
            raise wrong("too many colons in address" if text[end + 1] == ":" else "missing port in address")
        host, after = text[1:end], end + 1
    elif ":" in host:
        raise wrong("too many colons in address")
    if "[" in text[1 if after else 0 :]:
        raise wrong("unexpected '[' in address")
    if "]" in text[after:]:
        raise wrong("unexpected ']' in address")
    return host, service


def _port(service: str) -> int:
    if not service:
        return 0
    if _PORT_NUMBER.fullmatch(service) and service.isascii():
        port = int(service[:8])
        if not 0 <= port <= PORT_MAX or len(service) > 8:
            raise ListenAddressError(f"address {service}: invalid port")
        return port
    try:
        return socket.getservbyname(service, "tcp")
    except (OSError, UnicodeError) as error:
        raise ListenAddressError(f"lookup tcp/{service}: unknown port") from error


def bind(address: ListenAddress) -> socket.socket:
    """A socket that is bound to the address and does not listen yet. Raises OSError.

    For all addresses it is one socket for IPv4 and IPv6, as in Go, if the machine has both.
    """
    is_ipv4 = _is_ipv4(address.host)
    is_everywhere = not address.host or address.host == "0.0.0.0"
    if not is_ipv4 and address.host:
        is_everywhere = ipaddress.ip_address(address.host.partition("%")[0]).is_unspecified
    target: tuple[object, ...]
    if is_everywhere and socket.has_dualstack_ipv6():
        listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        target = ("::", address.port)
    elif is_ipv4:
        listener, target = socket.socket(socket.AF_INET, socket.SOCK_STREAM), (address.host, address.port)
    else:
        family, kind, protocol, _, target = socket.getaddrinfo(
            address.host or "0.0.0.0", address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    try:
        if is_everywhere and listener.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(target)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
