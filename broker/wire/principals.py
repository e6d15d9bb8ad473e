"""Encodes a principal as bytes, as Kafka's brokers forward it in an Envelope (DefaultPrincipalData, KIP-590).

The bytes begin with a version. A message of that version follows. Shown by tests/broker_wire/test_wire_principals.py.
"""

from __future__ import annotations

import struct
from typing import Final

from broker.wire.errors import RemoteProtocolError
from broker.wire.varints import read_uvarint, uvarint

VERSION: Final = 0
_VERSION = struct.Struct(">h")


def encode_principal(kind: str, name: str) -> bytes:
    encoded = (kind.encode(), name.encode())
    strings = b"".join(uvarint(len(each) + 1) + each for each in encoded)
    return _VERSION.pack(VERSION) + strings + b"\x00\x00"  # not by a delegation token; no tagged fields


def decode_principal(data: bytes) -> tuple[str, str] | None:
    """(type, name). None: the bytes are not valid, or the user authenticated with a delegation token (KIP-48)."""
    try:
        (version,) = _VERSION.unpack_from(data)
        kind, position = _string(data, _VERSION.size)
        name, position = _string(data, position)
        tags = data[position + 1]
    except (ValueError, IndexError, struct.error, RemoteProtocolError):
        return None
    if version != VERSION or not kind or not name or data[position] or tags or len(data) != position + 2:
        return None
    return kind, name


def _string(data: bytes, position: int) -> tuple[str, int]:
    """Raises ValueError for a wrong length, and IndexError at the end of the data."""
    size, position = read_uvarint(memoryview(data), position)
    end = position + size - 1
    if size < 1 or end > len(data):
        raise ValueError(f"a text of {size - 1} bytes ends after its {len(data)} bytes")
    return data[position:end].decode(), end
