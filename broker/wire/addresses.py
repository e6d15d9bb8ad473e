"""Reads and writes host:port in the same way everywhere: names, IPv4, and IPv6 in brackets (RFC 3986). Pure.

Shown by tests/broker_wire/test_wire_addresses.py.
"""

from __future__ import annotations

import re
from typing import Final

PORT_MAX: Final = 65_535
_BRACKETED: Final = re.compile(r"\[([0-9A-Fa-f:.]+(?:%[\w.\-]+)?)\]:([0-9]+)")
_PLAIN: Final = re.compile(r"([^\s:\[\]/@,]*):([0-9]+)")


class AddressError(ValueError):
    """The text is not an address. The message says what was expected and what was got."""


def parse_address(text: str, *, allow_zero: bool = False) -> tuple[str, int]:
    """The host without brackets, and the port. The host may be empty. The caller decides what that means."""
    stripped = text.strip()
    match = (_BRACKETED if stripped.startswith("[") else _PLAIN).fullmatch(stripped)
    if match is None:
        is_bare_ipv6 = stripped.count(":") > 1 and not stripped.startswith("[")
        hint = f", an IPv6 address in brackets: [{stripped}]:PORT" if is_bare_ipv6 else ""
        raise AddressError(f"expected host:port{hint}, got {text!r}")
    port = int(match[2][:6])
    if port > PORT_MAX or (port == 0 and not allow_zero):
        raise AddressError(f"expected a port from {0 if allow_zero else 1} to {PORT_MAX}, got {text!r}")
    return match[1], port


def format_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
