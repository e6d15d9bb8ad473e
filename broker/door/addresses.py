"""Addresses as Kafka's settings write them: HOST:PORT, also of IPv6."""

from __future__ import annotations

from broker.wire.addresses import PORT_MAX, AddressError, format_address, parse_address

__all__ = [
    "PORT_MAX",
    "AddressError",
    "format_address",
    "parse_address",
]
